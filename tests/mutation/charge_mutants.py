"""What a release costs and whom it is charged to, by peers and in a simulated run."""

from __future__ import annotations

from tests.mutation.mutant import of

HELD = "test_a_batch_holds_its_records_and_says_how_often_one_comes"
NO_NUMBERS = "test_numbers_that_are_none_promise_nothing"
TWICE = "test_a_record_that_is_there_twice_moves_a_mean_twice_as_far"
OWN = "test_a_release_is_charged_to_its_own_records_or_to_all"
CARRIED = "test_an_event_carries_what_was_declared"
IN_PARALLEL = "test_in_parallel_is_charged_only_what_says_so"

PHASES = "test_phases_of_a_round_add_up_and_what_has_no_data_is_free"
READ = "test_the_rounds_in_which_a_record_is_read_are_charged"
IN_SEQUENCE = "test_in_sequence_every_round_is_charged"
COPIES = "test_rounds_differ_by_how_often_a_record_is_in_their_batch"
TOOK_PART = "test_who_did_not_take_part_is_not_charged"
EMPTY = "test_a_batch_without_records_costs_nobody_anything"
DECAYING = "test_decaying_noise_costs_the_geometric_sum"
DEAREST = "test_the_dearest_agent_counts"
NO_NOISE = "test_a_round_without_noise_is_named"

BY_AGENT = "test_who_took_part_is_known_agent_by_agent"
ONE_EACH = "test_of_agents_with_one_record_each_the_dearest_counts"
REPEATS = "test_repeats_with_streams_of_their_own_keep_their_own_agents"

CHARGES = of(
    "privacy/charges.py",
    "tests/privacy/test_charges.py",
    [
        ("what comes twice in a batch counts once", "max(counts.values())", "1", HELD),
        ("the rarest record of a batch speaks for all", "max(counts.values())", "min(counts.values())", HELD),
        ("the first record is passed over", "if number >= 0)", "if number > 0)", HELD),
        ("an empty place is a record", " if number >= 0)", ")", HELD),
        ("no batch holds a record", "if counts else", "if False else", HELD),
        ("a batch of one record holds none", "if counts else", "if len(counts) > 1 else", HELD),
        ("records that come again are new", "cls(rows(counts),", "cls(fresh(round_),", HELD),
        ("new records are those of all rounds", "cls(fresh(round_))", 'cls("")', HELD),
        ("new records are always the same", "cls(fresh(round_))", "cls(fresh(0))", HELD),
        ("composition is the other way round", '!= "parallel"', '== "parallel"', IN_PARALLEL),
        ("all compose in parallel", 'statement.composition != "parallel" or', "", IN_PARALLEL),
        ("dataset is charged in parallel", ' or adjacency == "dataset"', "", IN_PARALLEL),
        ("nothing is charged in sequence", '"" if release.in_sequence else held.records', "held.records", OWN),
        ("everything is charged in sequence", '"" if release.in_sequence else held.records', '""', OWN),
        (
            "what comes twice in a batch costs what one does",
            'copies = 1 if mechanism.adjacency == "dataset" else held.copies',
            "copies = 1",
            TWICE,
        ),
        (
            "copies count twice for a whole data set",
            'copies = 1 if mechanism.adjacency == "dataset" else held.copies',
            "copies = held.copies",
            TWICE,
        ),
        ("calibrated noise costs the same for copies", "else copies * ratio,", "else ratio,", TWICE),
        ("copies do not move the value", "copies * sensitivity if known", "sensitivity if known", TWICE),
        (
            "a sensitivity that is no number is free",
            "sensitivity=copies * sensitivity if known else 1.0",
            "sensitivity=copies * sensitivity if known else 0.0",
            NO_NUMBERS,
        ),
        (
            "a scale that is no number is noise",
            "scale=scale if known else 0.0",
            "scale=scale if known else 1.0",
            NO_NUMBERS,
        ),
        ("a sensitivity that is no number is refused", "(sensitivity, scale, ratio", "(scale, ratio", NO_NUMBERS),
        ("a scale that is no number is refused", "(sensitivity, scale, ratio", "(sensitivity, ratio", NO_NUMBERS),
        (
            "what is no number costs what is declared",
            "None if ratio is None or not known else",
            "None if ratio is None else",
            NO_NUMBERS,
        ),
        (
            "noise decays unbooked",
            "mechanism.ratio_in(round_)",
            "mechanism.ratio_in(1)",
            "test_noise_that_decays_costs_what_its_round_says",
        ),
        ("one number is released", "coordinates=max(1, release.coordinates)", "coordinates=1", CARRIED),
        ("an empty value is refused", "max(1, release.coordinates)", "release.coordinates", CARRIED),
        ("the adjacency is forgotten", "        adjacency=mechanism.adjacency,\n", "", CARRIED),
        ("the bound is forgotten", "        bound=mechanism.bound,\n", "", CARRIED),
        ("nobody in particular sees it", "observers=(EVERYONE,)", 'observers=("",)', CARRIED),
    ],
)
SPENDING = of(
    "privacy/spending.py",
    "tests/privacy/test_spending.py",
    [
        ("the first agent speaks for all", "for reading in readings]", "for reading in readings[:1]]", DEAREST),
        ("the first record speaks for all", "for k in np.flatnonzero(near)]", "for k in (0,)]", READ),
        (
            "agents and records are charged together",
            "reduce(Total.worst, (sum_ for",
            "reduce(Total.plus, (sum_ for",
            DEAREST,
        ),
        (
            "what is not pure is passed over",
            "    near[np.argmax(table, axis=0)] = True",
            "    pass",
            "test_nobody_is_passed_over_for_whom_noise_is_not_pure",
        ),
        ("one round is charged in sequence", "        if self._in_sequence:\n", "        if False:\n", IN_SEQUENCE),
        ("all records are charged for every round", "        if self._in_sequence:\n", "        if True:\n", READ),
        ("of new records the first counts", "np.unique(self._kind)[:, None]", "np.unique(self._kind)[:1, None]", READ),
        ("the first record is passed over", "np.nonzero(self._first >= 0)", "np.nonzero(self._first > 0)", READ),
        ("an empty place is a record", "np.nonzero(self._first >= 0)", "np.nonzero(self._first >= -1)", EMPTY),
        ("records are told apart a read too late", "np.diff(pairs[:, 0])) + 1)", "np.diff(pairs[:, 0])) + 2)", READ),
        (
            "rounds that cost the same count once",
            "self._totals[kind].times(count)",
            "self._totals[kind]",
            IN_SEQUENCE,
        ),
        (
            "a record twice in a batch counts once",
            "np.ones(rounds, np.int64) if records is None else _most_copies(records)",
            "np.ones(rounds, np.int64)",
            COPIES,
        ),
        (
            "batches cost the same whatever they hold twice",
            "np.where(there, ratios, 0), self._copies[:, None]]",
            "np.where(there, ratios, 0)]",
            COPIES,
        ),
        ("copies are counted from the third on", "range(1, ordered.shape[1])", "range(2, ordered.shape[1])", COPIES),
        ("three copies are two", "np.where(again, run[:, place - 1] + 1, 1)", "np.where(again, 2, 1)", COPIES),
        ("empty places are copies", " & (ordered[:, place] >= 0)", "", COPIES),
        ("copies of the last record count", "np.asarray(run.max(axis=1))", "np.asarray(run[:, -1])", COPIES),
        ("who did not take part is charged", "else (ratios > 0) & took_part", "else ratios > 0", TOOK_PART),
        (
            "noise that decays costs as in one round",
            "        if calibrated:\n",
            "        if False:\n",
            "test_it_is_what_the_dearest_ledger_says",
        ),
        (
            "noise that decays is booked a round late",
            "event_of(release, t + 1, release",
            "event_of(release, t, release",
            DECAYING,
        ),
        ("what has no data is charged", "if there[k] and release.from_data", "if there[k]", PHASES),
        (
            "phases are not added up",
            "functools.reduce(Total.plus, (Total.of(e.loss)",
            "functools.reduce(Total.worst, (Total.of(e.loss)",
            PHASES,
        ),
        (
            "an open phase is passed over",
            "if release.mechanism.distribution is None:",
            "if False:",
            "test_one_open_phase_makes_the_run_not_private_and_is_named",
        ),
        ("a round without noise is passed over", "if unprotected.size:", "if False:", NO_NOISE),
        (
            "a ratio that is no number is passed over",
            "~np.isfinite(table[:, phase])",
            "np.isinf(table[:, phase])",
            NO_NOISE,
        ),
        (
            "adjacencies are mixed",
            "for release in releases})\n    if len(found) > 1:",
            "for release in releases})\n    if False:",
            "test_adjacencies_are_not_mixed",
        ),
    ],
)
READINGS = of(
    "simulator/readings.py",
    "tests/simulator/test_readings.py",
    [
        ("who did not take part is charged", "present[:, :, answering] = np.stack", "_ = np.stack", BY_AGENT),
        ("who was called is the one before", "return there[:, :-1]", "return there[:, 1:]", BY_AGENT),
        (
            "agents stand in the order of the graph",
            "learners.order[mine] % learners.agents",
            "np.arange(mine.sum()) % learners.agents",
            BY_AGENT,
        ),
        (
            "every kind of reader is the first",
            "np.argmax(kinds == kind)",
            "np.argmax(kinds == kinds[0])",
            BY_AGENT,
        ),
        (
            "who takes part alike reads alike",
            "(number, kind, part.tobytes())",
            "(number, 0, part.tobytes())",
            "test_agents_that_read_other_records_are_not_taken_for_one",
        ),
        ("repeats read alike", "(number, kind, part.tobytes())", "(0, kind, part.tobytes())", REPEATS),
        (
            "the first repeat's agents are those of all",
            "learners.agents == number if",
            "learners.agents == 0 if",
            REPEATS,
        ),
        (
            "rounds count in which all took part",
            "np.any(present, axis=0, keepdims=True)",
            "np.all(present, axis=0, keepdims=True)",
            "test_of_records_that_never_come_again_every_round_counts_in_which_anybody_took_part",
        ),
        (
            "who took part least pays most",
            "agents[most == most.max()], present[most == most.max()]",
            "agents[most == most.min()], present[most == most.min()]",
            ONE_EACH,
        ),
        ("who took part most pays most whatever rounds cost", "and _constant(ratios) and", "and", ONE_EACH),
        (
            "who took part most pays most whatever phases cost",
            "len(answering) == 1 and",
            "",
            "test_of_phases_that_cost_unlike_the_dearest_counts",
        ),
        (
            "who took part most pays most whatever batches hold",
            "len({numbers.shape for numbers in known}) == 1",
            "True",
            "test_of_agents_whose_record_is_more_than_once_in_a_batch_the_dearest_counts",
        ),
        (
            "who took part most pays most whatever it reads",
            "is not None and not numbers.any()]",
            "is not None]",
            "test_of_agents_with_more_than_one_record_the_dearest_counts",
        ),
        (
            "one kind of reader stands for all",
            "0, rounds)) for agent in first]",
            "0, rounds)) for agent in first[:1]]",
            "test_where_all_take_part_every_kind_of_reader_counts_once",
        ),
    ],
)
RESTING = "tests/deploy/test_schedules.py::test_who_rests_is_charged_nothing_in_the_simulator"
CALLED = "tests/simulator/test_calls.py::test_whoever_is_not_called_is_not_charged"
OWNERS = "tests/contract/test_accounts.py::test_owners_of_other_sizes_do_not_make_a_record_look_new"
KNOWS = "test_a_machine_knows_which_records_its_batch_holds"
ON_THE_WAY = (
    *of(
        "runtime/messages.py",
        "tests/contract/test_accounts.py",
        [
            (
                "nothing is charged in sequence",
                "charges_all(algorithm.privacy, ",
                "(lambda *_: False)(algorithm.privacy, ",
                "test_the_second_release_of_a_private_dual_is_refused",
            ),
        ],
    ),
    *of(
        "simulator/engine.py",
        CALLED,
        [
            (
                "the same agents are called in every round",
                "took_part.append(cohort.position)",
                "took_part.append(jnp.zeros_like(cohort.position))",
                CALLED,
            ),
            (
                "nobody knows who was called",
                "return phase.source == learner and promised and",
                "return False and",
                CALLED,
            ),
            ("who rests is charged", " or self.setup.rests(learner))", ")", RESTING),
        ],
    ),
    *of(
        "peer/in_memory.py",
        OWNERS,
        [("all records are new", "stream.records_in_round(agent, t) if learns else None", "None", OWNERS)],
    ),
    *of(
        "peer/sources/batches.py",
        "tests/peer/test_feeds.py",
        [
            (
                "all records are new",
                "records=self._stream.records_in_round(self._agent, round_)",
                "records=None",
                "test_a_stream_that_comes_round_again_names_the_same_records_again",
            ),
        ],
    ),
    *of(
        "peer/machine/rounds.py",
        "tests/peer/test_rounds.py",
        [
            ("all records are new", "Held.of(records, numbered)", "Held.of(None, numbered)", KNOWS),
            (
                "records are new after a restart",
                "snapshot.phase, snapshot.held\n",
                "snapshot.phase, self._held\n",
                KNOWS,
            ),
        ],
    ),
    *of(
        "peer/node/snapshot.py",
        "tests/peer/test_releases.py",
        [
            (
                "copies are forgotten over a restart",
                'Held(*facts["held"])',
                'Held(facts["held"][0])',
                "test_a_snapshot_remembers_which_records_its_batch_holds",
            ),
        ],
    ),
)
MUTANTS = (*CHARGES, *SPENDING, *READINGS, *ON_THE_WAY)
