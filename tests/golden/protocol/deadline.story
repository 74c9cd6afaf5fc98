# The transfer timeout of 10 s, from a rank's entry into finish_step.
# Shows KEEP_BY_OWN_CLOCK.
world layers 2
given forward ddd
given advance 1000s
given policy done
given forward ddd

# Layer 0: the message does not come.
submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
all start
> rank 0: materialised for activation 2
> rank 0: send posted: 0->1 slot 3 of activation 2
> rank 0: prepare 3 queued
> rank 1: materialised for activation 2
> rank 1: receive posted: 0->1 slot 3 of activation 2
> rank 1: prepare 3 queued
> rank 2: materialised for activation 2
> rank 2: vote yes on activation 2
> rank 2: prepare 3 queued
all prepare
> ranks 0, 1, 2: prepare 3 done
all finish
> ranks 0, 1, 2: waiting for activation 2
advance 9.9s
all poll
advance 100ms
rank 2 poll
> rank 2: deadline passed, abort of activation 2 asked
> record: activation 2 is aborted
all poll
> rank 0: cancel of send asked: 0->1 slot 3 of activation 2
> rank 1: cancel of receive asked: 0->1 slot 3 of activation 2
> rank 2: layer 0 kept as it is

# Aborted. What is outstanding is cancelled, and only when that is over do ranks 0 and 1 report.
all poll
> ranks 0, 1: layer 0 kept as it is
output
> ranks 0, 1, 2: reported prepare 3 ok
> ranks 0, 1: reported activation 2 kept: another aborted the record
> rank 2: reported activation 2 kept: the transfer timeout passed
> manager: layer 0 is given up: the ranks voted it down
> manager: layer 1 is ready
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 0, 0 1 | 1 2 | 2 0

# Layer 1: the last message comes when rank 1 is late already. Its yes is the last one and commits; its
# deadline then asks for an abort, and finds the record decided. It acts on the record, not on its clock.
submit ddd
> record: activation 4 is open
> manager: forward 4 activates layer 1 (activation 4 of prepare 3)
> manager: layer 1 is activating
all start
> rank 0: materialised for activation 4
> rank 0: send posted: 0->1 slot 3 of activation 4
> rank 1: materialised for activation 4
> rank 1: receive posted: 0->1 slot 3 of activation 4
> rank 2: materialised for activation 4
> rank 2: vote yes on activation 4
ranks 0 2 finish
> ranks 0, 2: waiting for activation 4
rank 1 finish
> rank 1: waiting for activation 4
send 0->1
> rank 0: vote yes on activation 4
advance 10s
arrive 0->1
> rank 1: vote yes on activation 4
> record: activation 4 is committed
> rank 1: deadline passed, abort of activation 4 asked
all poll
> ranks 0, 1, 2: layer 1 switched to generation 1
output
> ranks 0, 1, 2: reported activation 4 switched
> manager: layer 1 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 0 committed, 0 1 | 1 2 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 0, 0 1 | 1 2 | 2 0
> layer 1: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 1 runs under generation 1, 0 1 | 1 0 | 2 0
