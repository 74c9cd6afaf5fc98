# Samples around a switch. A worker says under which generation of each layer its forward ran; that
# decides where the sample belongs, not what was committed when the forward was submitted.
# Shows SAMPLE_TAGGED_AT_SUBMISSION.
# Shows WINDOW_NOT_CLEARED.
world layers 2 overlap 1
given forward ddd
given advance 1000s
given policy done
given forward ddd
submit ddd
> record: activation 2 is open
> manager: forward 3 activates layer 0 (activation 2 of prepare 1) and prepares layer 1 (prepare 3 on generation 0: 0 1 | 1 0 | 2 0)
> manager: layer 0 is activating
> manager: layer 1 is preparing
submit ddd
> manager: forward 4 has an empty command

# Forward 3 runs under the old placement and switches layer 0; forward 4 runs under the new one.
given all start
given all prepare
given deliver all
given all finish
all poll
> ranks 0, 1, 2: layer 0 switched to generation 1
all start
all finish

# The ranks have switched when the engine reads the output of forward 3. Its sample is counted before
# the commit, which clears the physical window: what was measured under the old placement says nothing
# about the new one. The logical window goes on.
window layer 0
> window of layer 0: tokens of experts 30 9 3, of slots 20 6 3 2 1 10, generation 0
output
> ranks 0, 1, 2: reported prepare 3 ok
> ranks 0, 1, 2: reported activation 2 switched
> manager: layer 0 is committed, generation 1
> manager: layer 1 is ready
window layer 0
> window of layer 0: tokens of experts 60 18 6, of slots 0 0 0 0 0 0, generation 1

# The sample of forward 4 belongs to the new generation.
output
window layer 0
> window of layer 0: tokens of experts 90 27 9, of slots 10 6 3 10 3 10, generation 1

# Layer 1, with a report lost: forward 6 ran under a generation that the manager has not committed
# yet. Its sample counts for layer 0 and not for layer 1, then the repeated level commits layer 1.
submit ddd
> record: activation 4 is open
> manager: forward 5 activates layer 1 (activation 4 of prepare 3)
> manager: layer 1 is activating
submit ddd
> manager: forward 6 has an empty command
given all start
given deliver all
given all finish
all poll
> ranks 0, 1, 2: layer 1 switched to generation 1
all start
all finish
output lacking 2
> ranks 0, 1: reported activation 4 switched
window layer 1
> window of layer 1: tokens of experts 90 27 9, of slots 60 18 9 6 3 30, generation 0
output
> rank 2: reported activation 4 switched
> manager: layer 1 is committed, generation 1
> manager: the round is over
window layer 0
> window of layer 0: tokens of experts 120 36 12, of slots 20 12 6 20 6 20, generation 1
window layer 1
> window of layer 1: tokens of experts 90 27 9, of slots 0 0 0 0 0 0, generation 1
