"""The tightness of every bound over many problems."""
