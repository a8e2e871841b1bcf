"""Ways in which data could leave an agent beside the mechanism: every one is refused before round 0."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import tacit
from tacit import runtime
from tacit.audit import check_contract
from tacit.core.contract import (
    Algorithm,
    Array,
    Links,
    Params,
    Phase,
    PrivacyStatement,
    View,
    per_slot,
    share,
    unprotected,
)
from tacit.core.errors import ContractError
from tacit.graphs import Channel
from tacit.privacy import clipped_mean, graph_homomorphic, laplace, per_edge, release, statement
from tacit.privacy.noise import noise_words
from tacit.simulator.engine import Engine
from tacit.simulator.layout import lay_out

MECHANISM = laplace(epsilon=1.0, clip=1.0, perturbs="gradient")
OBJECTIVE = tacit.objectives.logistic()
GRADIENT = clipped_mean(jax.grad(OBJECTIVE.loss), MECHANISM.clip)
ROUNDS = 2


class State(NamedTuple):
    model: Params
    hidden: Array


def init(key, params, views):
    return State(params, jnp.zeros_like(params))


def compute(key, state, batch, view):
    return state, GRADIENT(state.model, batch)


def emit(state, released, view):
    return state, share(state.model - 0.1 * released)


def absorb(key, state, inbox, view):
    return state._replace(model=inbox.mix().private)


def hide(key, state, batch, view):
    """Put a record into the state; the value is the honest one."""
    return state._replace(hidden=batch.x), GRADIENT(state.model, batch)


HONEST = Phase("peers", compute, MECHANISM, absorb, emit)


def method(*phases: Phase, composition="sequential", mechanism=MECHANISM, **parts) -> Algorithm:
    parts = {"init": {"peer": init}, "model": lambda state: state.model, **parts}
    return Algorithm(
        name="leaky",
        objective=OBJECTIVE,
        phases=phases or (HONEST,),
        requires=frozenset(),
        privacy=statement(mechanism, composition=composition),
        **parts,
    )


def stream():
    return tacit.streams.logistic_drift(agents=3, dim=2, rounds=ROUNDS, seed=0)


def settled(algorithm: Algorithm) -> tuple[runtime.MessageSpec, ...]:
    """What the simulator settles before round 0."""
    algorithm = runtime.self_contained(algorithm)
    topology = runtime.prepared_topology(algorithm, tacit.graphs.complete(3))
    layout, dtype, spec = (
        lay_out(topology, runtime.link_ends(algorithm), 1),
        jnp.dtype("float32"),
        stream().batch_spec(),
    )
    params = runtime.first_params(algorithm, spec, dtype, None)
    return Engine(algorithm, layout, Channel(), dtype, params, spec).specs


def charged(algorithm: Algorithm) -> list[bool]:
    return [spec.release.from_data for spec in settled(algorithm)]


def refused(algorithm: Algorithm, *words: str) -> None:
    with pytest.raises(ContractError) as refusal:
        settled(algorithm)
    for word in ("leaky", *words):
        assert word in str(refusal.value)


# -- mutable references ------------------------------------------------------------------------------------------------


def through_a_reference(key, state, batch, view):
    held = jax.new_ref(jnp.zeros_like(batch.x))
    held[...] = batch.x
    return state._replace(hidden=held[...]), GRADIENT(state.model, batch)


def through_a_reference_in_a_loop(key, state, batch, view):
    held = jax.new_ref(jnp.zeros_like(batch.x))

    def body(carry, _):
        held[...] += batch.x
        return carry, None

    jax.lax.scan(body, (), length=2)
    return state._replace(hidden=jax.freeze(held)), GRADIENT(state.model, batch)


@pytest.mark.parametrize("work", [through_a_reference, through_a_reference_in_a_loop])
@pytest.mark.parametrize("composition", ["parallel", "sequential"])
def test_a_reference_is_refused(work, composition):
    refused(method(HONEST._replace(compute=work), composition=composition), "phase 0", "compute", "new_ref")


def test_a_reference_that_outlives_the_functions_is_refused():
    held = jax.new_ref(jnp.zeros(2))

    def write(key, state, batch, view):
        held[...] = batch.x
        return compute(key, state, batch, view)

    def read(state, released, view):
        return state, share(released + held[...])

    refused(method(HONEST._replace(compute=write, emit=read), composition="parallel"), "phase 0", "compute", "swap")
    refused(method(HONEST._replace(emit=read), composition="parallel"), "phase 0", "emit", "get")


# -- what emit sends ---------------------------------------------------------------------------------------------------


def test_emit_may_not_send_what_compute_hid_under_an_empty_value():
    def nothing(key, state, batch, view):
        return state._replace(hidden=batch.x), ()

    def send(state, released, view):
        return state, share(state.hidden)

    refused(method(HONEST._replace(compute=nothing, emit=send)), "phase 0", "emit", "hidden")


def test_emit_may_not_send_what_compute_hid_beside_a_value_that_is_released():
    def send(state, released, view):
        return state, share({"step": released, "more": state.hidden})

    phase = HONEST._replace(compute=hide, emit=send, absorb=lambda key, state, inbox, view: state)
    refused(method(phase), "phase 0", "emit", "more", "hidden")


def test_emit_may_not_send_data_under_a_value_without_any():
    def constant(key, state, batch, view):
        return state._replace(hidden=batch.x), jnp.zeros(2)

    def send(state, released, view):
        return state, share(released + state.hidden)

    refused(method(HONEST._replace(compute=constant, emit=send)), "phase 0", "emit", "hidden")


def test_what_one_phase_hides_another_may_not_send():
    def send(state, released, view):
        return state, share(released + state.hidden)

    later = HONEST._replace(
        compute=lambda key, state, batch, view: (state, ()), emit=lambda s, r, v: (s, share(s.hidden))
    )
    refused(method(HONEST._replace(compute=hide), later), "phase 1", "emit", "hidden")
    earlier = HONEST._replace(emit=send)
    refused(method(earlier, HONEST._replace(compute=hide)), "phase 0", "emit", "hidden")  # a round later


def test_what_is_hidden_and_handed_on_within_the_state_is_followed_over_the_rounds():
    """hidden -> model in absorb of a phase without data, and from there into a message."""

    def shift(key, state, inbox, view):
        return state._replace(model=inbox.mix().private + state.hidden)

    def nothing(key, state, batch, view):
        return state, ()

    relay = Phase("peers", nothing, unprotected, shift, lambda s, r, v: (s, share(jnp.zeros(2))))
    refused(method(HONEST._replace(compute=hide), relay), "phase 0", "emit", "model")


def test_what_absorb_clears_stays_with_whoever_leaves_the_phase_out():
    def clear(key, state, inbox, view):
        return State(inbox.mix().private, jnp.zeros_like(state.hidden))

    nothing = lambda key, state, batch, view: (state, ())  # noqa: E731
    later = HONEST._replace(compute=nothing, emit=lambda s, r, v: (s, share(s.hidden)))
    refused(method(HONEST._replace(compute=hide, absorb=clear), later), "phase 1", "emit", "hidden")


def test_whom_data_address_is_refused():
    def nearest(state, released, view):
        return state, share(released, to=jnp.argmax(state.hidden)[None])

    refused(method(HONEST._replace(compute=hide, emit=nearest)), "phase 0", "emit", "`to`")


@pytest.mark.parametrize("source", ["hidden", "released"])
def test_data_in_a_public_part_are_refused(source):
    def send(state, released, view):
        return state, share(released, public={"norm": jnp.sum(state.hidden if source == "hidden" else released)})

    refused(method(HONEST._replace(compute=hide, emit=send)), "phase 0", "emit", "public", "norm")


def test_a_public_part_is_followed_through_what_was_heard():
    """The mass of a neighbour is public, but not what was made of its model."""

    def kept(key, state, inbox, view):
        return state._replace(hidden=inbox.mix().private)

    def send(state, released, view):
        return state, share(released, public=state.hidden)

    refused(method(HONEST._replace(emit=send, absorb=kept)), "phase 0", "public", "hidden")


# -- noise that lies on the links --------------------------------------------------------------------------------------

ON_LINKS = {m.spread: m for m in (per_edge(0.1, clip=1.0), graph_homomorphic(0.1, clip=1.0))}


def on_links(spread, emit):
    return HONEST._replace(
        compute=lambda key, state, batch, view: (state, state.model - 0.1 * GRADIENT(state.model, batch)),
        mechanism=ON_LINKS[spread],
        emit=emit,
    )


def test_a_neighbour_may_not_get_the_copy_that_is_the_agents_own():
    """It carries the draw otherwise: with it and another copy one solves for the value."""

    def turned_round(state, released, view):
        return state, per_slot(released[::-1])

    phase = on_links("homomorphic", turned_round)
    refused(method(phase, mechanism=phase.mechanism), "phase 0", "emit", "released")
    assert charged(method(phase._replace(emit=lambda s, r, v: (s, per_slot(r))), mechanism=phase.mechanism)) == [True]
    # Independent copies are charged together, whoever gets which.
    assert charged(method(on_links("per_edge", turned_round), mechanism=ON_LINKS["per_edge"])) == [True]


def test_a_link_that_is_down_brings_no_copy_beyond_those_that_are_charged():
    """A state could be made of all copies, and sent later: only those of live links, and the agent's own, are paid."""
    live = jnp.array([True, True, False, True, False])
    out = Links(jnp.arange(5), live, jnp.full(5, 0.2))
    view = View(jnp.int32(0), jnp.int32(1), jnp.asarray(True), jnp.int32(0), out, out)
    released, *_ = release(per_edge(0.1, clip=1.0), noise_words(jax.random.key(0), 1, 0), jnp.zeros(3), view)
    assert len(np.unique(released[:, 0])) == 1 + int(out.degree)
    np.testing.assert_array_equal(released[~live], jnp.broadcast_to(released[0], (2, 3)))


def test_homomorphic_noise_does_not_compose_in_parallel():
    """What an agent keeps makes up for what it sent: its state is made of data."""
    phase = on_links("homomorphic", lambda s, r, v: (s, per_slot(r)))
    refused(method(phase, mechanism=phase.mechanism, composition="parallel"), "phase 0", "absorb", "model")
    kept = phase._replace(
        emit=lambda s, r, v: (s._replace(hidden=r[0]), per_slot(r)), absorb=lambda key, state, inbox, view: state
    )
    refused(method(kept, mechanism=phase.mechanism, composition="parallel"), "phase 0", "emit", "hidden")
    phase = on_links("per_edge", lambda s, r, v: (s._replace(hidden=r[0]), per_slot(r)))
    assert charged(method(phase, mechanism=phase.mechanism, composition="parallel")) == [True]


# -- operations that reach out of the program --------------------------------------------------------------------------


def called_back(x):
    return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")


def told(x):
    return io_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def printed(x):
    jax.debug.print("{}", x)
    return x


def shown(x):
    jax.debug.callback(lambda x: None, x)
    return x


def handed_to_a_library(x):
    return jax.ffi.ffi_call("somewhere", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@jax.custom_jvp
def differentiated(x):
    return x


@differentiated.defjvp
def _(primals, tangents):
    return called_back(primals[0]), tangents[0]


REACH_OUT = {
    "pure_callback": called_back,
    "io_callback": told,
    "debug_print": printed,
    "debug_callback": shown,
    "ffi_call": handed_to_a_library,
}
WAYS = {
    "plainly": lambda f, x: f(x),
    "in a branch": lambda f, x: jax.lax.cond(x[0] > 0, f, lambda x: x, x),
    "in a loop": lambda f, x: jax.lax.scan(lambda c, _: (f(c), None), x, length=2)[0],
    "while": lambda f, x: jax.lax.while_loop(lambda c: c[0] > 0, f, x),
    "in a function of its own": lambda f, x: jax.jit(f)(x),
    "to be computed again": lambda f, x: jax.checkpoint(f)(x),
}


@pytest.mark.parametrize("name", REACH_OUT)
@pytest.mark.parametrize("way", WAYS)
def test_what_reaches_out_of_compute_is_refused(name, way):
    def work(key, state, batch, view):
        return compute(key, state, batch._replace(x=WAYS[way](REACH_OUT[name], batch.x)), view)

    refused(method(HONEST._replace(compute=work), composition="parallel"), "phase 0", "compute", name)


def test_what_reaches_out_of_a_derivative_is_refused():
    def work(key, state, batch, view):
        return state, jax.grad(lambda params: jnp.sum(differentiated(params * batch.x)))(state.model)

    refused(method(HONEST._replace(compute=work), composition="parallel"), "phase 0", "compute", "pure_callback")


def test_what_reaches_out_of_any_other_function_is_refused():
    in_emit = HONEST._replace(emit=lambda s, r, v: emit(s, printed(r), v))
    refused(method(in_emit, composition="parallel"), "phase 0", "emit", "debug_print")
    in_absorb = HONEST._replace(absorb=lambda k, s, inbox, v: s._replace(model=called_back(inbox.mix().private)))
    refused(method(HONEST, in_absorb, composition="parallel"), "phase 1", "absorb", "pure_callback")
    in_init = {"peer": lambda key, params, views: init(key, printed(params), views)}
    refused(method(composition="parallel", init=in_init), "init", "peer", "debug_print")
    refused(method(composition="parallel", model=lambda state: printed(state.model)), "model", "debug_print")
    shown = {"norm": lambda state: printed(state.model)}
    refused(method(composition="parallel", diagnostics=shown), "norm", "debug_print")
    squeezed = MECHANISM._replace(finish=lambda noisy, noise: printed(noisy))
    refused(method(HONEST._replace(mechanism=squeezed), composition="parallel"), "phase 0", "mechanism", "debug_print")
    prepare = lambda batch: batch._replace(x=printed(batch.x))  # noqa: E731
    refused(method(composition="parallel", prepare=prepare), "phase 0", "compute", "debug_print")


def test_the_simulator_refuses_a_preparation_that_reaches_out():
    """There it is done where the data are put, before any phase."""
    leaky = method(composition="parallel", prepare=lambda batch: batch._replace(x=printed(batch.x)))
    with pytest.raises(ContractError, match="prepare.*debug_print"):
        tacit.simulate(leaky, tacit.graphs.complete(3), stream(), rounds=ROUNDS)


def test_an_operation_that_jax_does_not_know_is_refused():
    from jax.extend.core import Primitive

    own = Primitive("add")  # called like one of JAX's
    own.def_abstract_eval(lambda x: x)

    def work(key, state, batch, view):
        return compute(key, state, batch._replace(x=own.bind(batch.x)), view)

    refused(method(HONEST._replace(compute=work), composition="parallel"), "phase 0", "compute", "add")


def test_data_that_leave_by_way_of_python_are_refused():
    box = []

    def keep(key, state, batch, view):
        box.append(batch.x)
        return compute(key, state, batch, view)

    def send(state, released, view):
        return state, share(released + box[-1])

    refused(method(HONEST._replace(compute=keep, emit=send), composition="parallel"), "phase 0", "emit")

    def scaled(view, sensitivity):
        return sensitivity * (1 + jnp.sum(box[-1]))

    loud = HONEST._replace(compute=keep, mechanism=MECHANISM._replace(scale=scaled, ratio=None))
    refused(method(loud, composition="parallel"), "phase 0", "mechanism")


def test_first_parameters_come_of_shapes():
    peeking = OBJECTIVE._replace(initial=lambda batch: jnp.asarray(batch.x) * 1.0)
    with pytest.raises(ContractError, match="initial.*shapes"):
        tacit.peer.run_in_process(method()._replace(objective=peeking), tacit.graphs.complete(3), stream(), rounds=1)


# -- what must not be refused ------------------------------------------------------------------------------------------


def test_a_method_that_keeps_its_promise_is_let_through():
    assert charged(method(composition="parallel")) == [True]
    assert charged(method(HONEST._replace(compute=hide))) == [True]

    def at_home(state, released, view):
        return state._replace(hidden=state.hidden * 2), share(state.model - released, public=view.out.degree)

    assert charged(method(HONEST._replace(compute=hide, emit=at_home))) == [True]


def test_what_a_hidden_leaf_weighs_is_charged_to_the_last_phase():
    """The value of phase 1 is made of a leaf that holds data, that of phase 2 is not."""
    from_state = HONEST._replace(compute=lambda key, state, batch, view: (state, state.hidden))
    free = HONEST._replace(compute=lambda key, state, batch, view: (state, state.model))
    assert charged(method(HONEST._replace(compute=hide), from_state, free)) == [True, True, False]
    assert charged(method(from_state, free, HONEST._replace(compute=hide))) == [True, False, True]


@pytest.mark.parametrize(
    "way", ["in a function of its own", "to be computed again", "in a branch", "in a loop", "while"]
)
def test_state_and_value_are_told_apart_inside_of(way):
    def both(carry, batch, view):
        state, _ = carry
        return state, GRADIENT(state.model, batch)

    def work(key, state, batch, view):
        start = (state, jnp.zeros_like(state.model))
        run = partial(both, batch=batch, view=view)
        return {
            "in a function of its own": lambda: jax.jit(run)(start),
            "to be computed again": lambda: jax.checkpoint(run)(start),
            "in a branch": lambda: jax.lax.cond(view.fresh, run, lambda carry: carry, start),
            "in a loop": lambda: jax.lax.scan(lambda c, _: (run(c), None), start, length=2)[0],
            "while": lambda: jax.lax.fori_loop(0, view.round, lambda _, c: run(c), start),
        }[way]()

    assert charged(method(HONEST._replace(compute=work), composition="parallel")) == [True]


def test_nothing_is_refused_where_nothing_is_promised():
    def send(state, released, view):
        return state, share({"step": released, "more": printed(state.hidden)}, public=state.hidden)

    loud = method(HONEST._replace(compute=hide, emit=send, absorb=lambda k, s, inbox, v: s), HONEST)
    loud = loud._replace(privacy=PrivacyStatement.none())
    assert charged(loud) == [True, True]


def test_what_a_reference_hides_is_charged_where_nothing_is_promised():
    def work(key, state, batch, view):
        held = jax.new_ref(jnp.zeros_like(batch.x))
        held[...] = batch.x
        return state, held[...]

    assert charged(method(HONEST._replace(compute=work))._replace(privacy=PrivacyStatement.none())) == [True]


# -- whoever asks ------------------------------------------------------------------------------------------------------

LEAKY = method(HONEST._replace(compute=hide, emit=lambda s, r, v: (s, share(s.hidden))))


@pytest.mark.parametrize("run", [tacit.simulate, tacit.peer.run_in_process, check_contract])
def test_both_runtimes_and_the_check_refuse(run):
    with pytest.raises(ContractError, match="emit.*hidden"):
        run(LEAKY, tacit.graphs.complete(3), stream(), rounds=ROUNDS)
