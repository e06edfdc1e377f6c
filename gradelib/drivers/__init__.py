"""Drivers: they use an answer where one call is not enough, in the process where the answer lives.

A check names one (`Check.driver`). It takes the answer and a case's inputs, builds what plain data
cannot be (tensors, layers), and returns plain data.
"""
