# An output is lost on its way. Levels are repeated, so the next one tells the same.
# Shows REPORT_LOST_ONCE.
given forward ddd
given advance 1000s
given policy done
given forward ddd

submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1)
> manager: layer 0 is activating
given all start
given deliver all
given all finish
all poll
> ranks 0, 1, 2: layer 0 switched to generation 1
output lacking 1
> ranks 0, 2: reported activation 2 switched
forward ddd
> manager: forward 4 has an empty command
> rank 1: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: the round is over
state
> layer 0: generation 1 committed, 0 1 | 1 0 | 2 0
> ranks 0, 1, 2: layer 0 runs under generation 1, 0 1 | 1 0 | 2 0
