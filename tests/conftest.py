"""How Hypothesis searches: the same examples in every run, without a limit on real time.

``pytest --hypothesis-profile=search`` looks for new ones.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")
