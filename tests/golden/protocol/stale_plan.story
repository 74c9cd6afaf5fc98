# A ready layer waits while only prefills run. After more than an interval it must pass the gate again,
# on what has been measured meanwhile: now another expert is hot.
world interval 100s
given forward ddd
given advance 100s
given policy done
given forward ddd

hot layer 0 expert 2
forward ppp
> manager: forward 3 has an empty command
forward ppp
> manager: forward 4 has an empty command
forward ppp
> manager: forward 5 has an empty command
window layer 0
> window of layer 0: tokens of experts 57 18 93, of slots 38 12 6 62 31 19, generation 0
advance 101s
submit ddd
> manager: layer 0 is given up: it no longer passes the gate
> manager: forward 6 has an empty command
> manager: a policy run is due
