"""An independent implementation of docs/sampling.md, for tests."""
