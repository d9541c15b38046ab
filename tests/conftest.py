"""What all tests share."""

from hypothesis import HealthCheck, settings

# A busy machine is slow at drawing examples; that is no finding. A failing example is printed with what reproduces it.
settings.register_profile("baton", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("baton")
