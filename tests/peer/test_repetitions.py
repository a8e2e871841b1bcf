"""A message counts once, however late it comes again, and not at all once its round was left out."""

from tests.peer.machines import begin, envelope, machine, numbers, refuse


def test_a_repetition_while_an_earlier_phase_is_over_already():
    one = machine(longest_delay=1)
    begin(one)
    one.proceed()
    one.receive(envelope(phase=1, t=1))
    one.proceed()
    begin(one)
    one.proceed()
    refuse(one, "repeated", envelope(phase=1, t=1))
    one.proceed()
    refuse(one, "stale", envelope(phase=1, t=1))


def test_rounds_that_are_left_out_take_their_messages_along():
    one = machine(longest_delay=1)
    for t in (1, 2):
        one.receive(envelope(t=t))
    one.skip_to(2)
    assert len(one._received) == 1
    before = numbers(one)[1]
    begin(one)
    one.proceed()
    assert numbers(one)[1] == before + 1 + 2
