"""Training of the image side: projection of the vision tower, composed queries."""
