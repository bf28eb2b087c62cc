"""The fault campaign: a real host, a real `sweep` process, and something goes wrong in the middle.

    fault.py       what a fault is: when it strikes, what it does, what a person does about it
    ground.py      one host and one sweep on it, for one injection
    processes.py   the processes that sweep: detached, on a terminal
    orchestrator.py manners.py network.py hosts.py servers.py disks.py
                   the faults
    catalogue.py   all of them, and how often each is injected
    judge.py       what has to hold afterwards
    campaign.py    one injection, from the start of the sweep to the verdict
    table.py       the table that is printed in the end

`make test-faults` injects each fault once or a few times, `make soak` hundreds of times.
"""
