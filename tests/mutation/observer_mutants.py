"""Observers and operators: what their certificates are good for, and what they may see and do."""

from __future__ import annotations

from tests.mutation.mutant import of

ROLES, DOOR = "tests/peer/test_roles.py", "tests/peer/test_status_door.py"

MUTANTS = (
    *of(
        "peer/identity/credentials.py",
        ROLES,
        [
            (
                "an observer opens links",
                '    if holder.role != "peer":\n',
                "    if False:\n",
                "test_no_member_s_door_lets_them_in",
            ),
        ],
    ),
    *of(
        "peer/identity/identity.py",
        ROLES,
        [
            (
                "a peer runs by an observer's certificate",
                "    if holder.role != role:\n",
                "    if False:\n",
                "test_no_peer_runs_by_them_and_no_member_is_one_of_them",
            ),
            (
                "an observer may be a server",
                '    listens = (ExtendedKeyUsageOID.SERVER_AUTH,) if role == "peer" else ()\n',
                "    listens = (ExtendedKeyUsageOID.SERVER_AUTH,)\n",
                "test_they_cannot_be_a_server_either",
            ),
        ],
    ),
    *of(
        "peer/identity/authority.py",
        ROLES,
        [
            (
                "an observer on a list takes the member of its name out",
                "Revoked(str(holder), datetime.now(UTC), replaced)",
                "Revoked(holder.name, datetime.now(UTC), replaced)",
                "test_revoked_by_its_number_and_never_a_member_of_the_same_name",
            ),
        ],
    ),
    *of(
        "peer/observing/door.py",
        DOOR,
        [
            (
                "a member reads the status",
                '        if holder.role == "peer":\n',
                "        if False:\n",
                "test_a_member_is_refused",
            ),
            (
                "an observer stops a peer",
                '        if caller.holder.role != "operator":\n',
                "        if False:\n",
                "test_an_operator_stops_a_peer_and_an_observer_does_not",
            ),
            (
                "a certificate that ends keeps its connection",
                "        if certificate.not_valid_after_utc <= datetime.now(UTC):\n",
                "        if False:\n",
                "test_one_that_ends_is_cut_off_with_its_next_request",
            ),
            (
                "a stop is not in the peer's log",
                '        self._log.warning(f"{act}, asked for by an operator", operator=caller.holder.name, serial=caller.fingerprint)\n',
                "",
                "test_an_operator_stops_a_peer_and_an_observer_does_not",
            ),
        ],
    ),
    *of(
        "peer/observing/client.py",
        DOOR,
        [
            (
                "a client asks whoever is at the address",
                "            if holder != Holder(self.name):\n",
                "            if False:\n",
                "test_a_client_asks_nobody_but_the_peer_that_it_means",
            ),
        ],
    ),
    *of(
        "peer/observing/report.py",
        "tests/deploy/test_status_door.py",
        [
            (
                "losses are shown to observers unasked",
                '.get("recent", {}) if self._shows_loss else {}\n',
                '.get("recent", {})\n',
                "test_what_an_observer_learns",
            ),
            (
                "metrics of raw data are shown to observers unasked",
                "render(frozenset() if self._shows_loss else MADE_OF_DATA)",
                "render(frozenset())",
                "test_what_an_observer_learns",
            ),
            (
                "the text of an error is shown to observers",
                'reason if (reason := fields.get("reason")) in _WORDS else None',
                'fields.get("reason")',
                "test_states_of_links_and_errors_without_their_texts",
            ),
        ],
    ),
    *of(
        "board/federation.py",
        "tests/board/test_federation.py",
        [
            (
                "a stop is not noted",
                '        self._note("stop", name, operator)\n',
                "",
                "test_a_stop_by_an_operator_is_noted_here",
            ),
        ],
    ),
)
