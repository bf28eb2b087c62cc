"""The answer in the morning: what a run or a table of measurements says, and how sure that is.

data       inputs -> `Results`: one typed frame of trials, and what failed, and what happened when
summary    the values of an `Analysis`: what every text, plot and file of the report is drawn from
analysis   `Results` -> `Analysis`
"""
