"""Checks of pods before they are created, as `pinfold lint` and the steps of scenarios ask for."""

# Empty on purpose: whoever imports one of these modules does not load the others.
