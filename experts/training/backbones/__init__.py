"""Torch backbones of every supported family, loaded from local folders or a hub."""
