"""Settings of hypothesis: no deadline, since a busy machine is no fault of an estimator."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("estimators", deadline=None)
settings.load_profile("estimators")
