"""Benchmarking one server at one concurrency.

client/     the measuring instrument, standard library only, packed into one file for a host
workload    what is sent
metrics     the client's result -> the columns of a row; every definition stands there
table       the published table: printed, and read from other people's scripts
backends    how the runner has a trial measured: the own client, or the user's command
standalone  `sweep bench URL C...`
shown       how that tells what it measures: tables, or JSON
"""
