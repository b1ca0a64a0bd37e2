"""Training of LoRA experts against document vectors that the frozen base computed once."""
