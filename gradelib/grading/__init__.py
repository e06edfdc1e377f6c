"""Grading a course: reading submissions, running them apart, recording marks.

Needs the extra `grade`: `pip install "one-gpu[grade]"`. The answer process needs the standard
library alone, so nothing is imported here.
"""
