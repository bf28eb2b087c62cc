"""Sweep SGLang's speculative decoding settings over SSH, and say which to use."""

__version__ = "0.1.0"
