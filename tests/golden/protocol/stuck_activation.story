# A rank's reports do not come. After twice the transfer timeout, and an output that could have
# brought them, that is said once; nothing is assumed, and a late report settles it.
world transfer_timeout 10s
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
advance 20s
submit ddd
> manager: forward 4 has an empty command
all start
all finish
output lacking 1
> manager warns: activation is stuck: layer 0, activation_token 2, age 20.000 s, no report from rank 1
forward ddd
> manager: forward 5 has an empty command
> rank 1: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: the round is over
