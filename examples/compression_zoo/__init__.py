"""Recipes that compress classifiers, detectors and segmentation networks."""
