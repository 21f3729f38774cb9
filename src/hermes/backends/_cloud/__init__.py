"""What the three clouds share: a channel over a provider's text stream, and bounded calls of an SDK."""
