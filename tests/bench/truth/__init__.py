"""Clients held against a server that knows when it really sent what (`../client_truth.py`).

server        the truth: it logs when a request arrived and when it sent each piece
clients       who is measured: how each is run, and what its report says
aiohttp_loop  a client as the Python ones of SGLang and vLLM are: asyncio, JSON of every chunk
setups        virtual environments of the bench's own, for what is no dependency of the project
"""
