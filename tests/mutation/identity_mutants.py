"""Whom the authority has taken back, and whom it has invited."""

from __future__ import annotations

from tests.mutation.mutant import of

REVOCATION, INVITATION = "tests/peer/test_revocation.py", "tests/peer/test_invitation.py"

MUTANTS = (
    *of(
        "peer/identity/credentials.py",
        REVOCATION,
        [
            (
                "a revoked certificate opens links",
                "    if identity.revoked is not None and identity.revoked.revokes(der):\n",
                "    if False:\n",
                "test_no_new_link_by_a_revoked_certificate_at_either_end",
            ),
            (
                "a running peer takes an old list",
                "        if known is not None:\n            refuse_older(found, known, path)\n",
                "",
                "test_an_old_list_is_refused_by_install_and_by_a_running_peer",
            ),
        ],
    ),
    *of(
        "peer/transport/listener.py",
        REVOCATION,
        [
            (
                "an open link of a revoked neighbour stays",
                '                self.cut(name, "revoked", detail)\n',
                "",
                "test_an_open_link_is_cut_at_once_and_stays_down",
            ),
            (
                "a list that comes during a handshake is missed",
                "            name = peer_of(secured.tls, self._watch.current())",
                "            name = peer_of(secured.tls, credentials.identity)",
                "test_a_list_that_comes_during_the_handshake_counts",
            ),
        ],
    ),
    *of(
        "peer/transport/dialer.py",
        REVOCATION,
        [
            (
                "an open link to a revoked neighbour stays",
                "            self._link.distrust(detail)\n",
                "",
                "test_an_open_link_is_cut_at_once_and_stays_down",
            ),
        ],
    ),
    *of(
        "peer/masking/agreement.py",
        REVOCATION,
        [
            (
                "letters of a revoked partner count",
                "        if self._revoked is not None and self._revoked.revokes(offer.certificate):\n",
                "        if False:\n",
                "test_letters_of_a_revoked_partner_are_refused",
            ),
        ],
    ),
    *of(
        "peer/identity/revocation.py",
        REVOCATION,
        [
            ("anybody signs a list", "    if not signed:\n", "    if False:\n", "test_a_list_of_a_peer_is_refused"),
            (
                "an old list is taken",
                "    if missing or found.number < known.number:\n",
                "    if False:\n",
                "test_an_old_list_is_refused_by_install_and_by_a_running_peer",
            ),
            (
                "a list that has lost entries is taken",
                "    if missing or found.number < known.number:\n",
                "    if found.number < known.number:\n",
                "test_an_old_list_is_refused_by_install_and_by_a_running_peer",
            ),
            (
                "a part of a list is taken for all of it",
                "not all(isinstance(value, _KNOWN) for value in extensions)",
                "False",
                "test_lists_of_other_programs",
            ),
        ],
    ),
    *of(
        "peer/identity/authority.py",
        REVOCATION,
        [
            (
                "a list forgets what it held",
                "        before = {} if known is None else known.entries\n",
                "        before = {}\n",
                "test_lists_count_up_and_keep_what_they_hold",
            ),
            (
                "the authority itself is revoked",
                "        if certificate == ca or not issued_by(certificate, ca):\n",
                "        if not issued_by(certificate, ca):\n",
                "test_only_certificates_of_this_authority_are_revoked",
            ),
        ],
    ),
    *of(
        "peer/identity/invitation.py",
        INVITATION,
        [
            (
                "anybody invites",
                "            return True\n    except InvalidSignature:\n        pass\n    return False\n",
                "            return True\n    except InvalidSignature:\n        pass\n    return True\n",
                "test_a_flipped_bit_is_refused",
            ),
            (
                "an invitation is to any job",
                "    if said != job:\n",
                "    if False:\n",
                "test_other_job_other_authority_and_other_times_are_refused",
            ),
            (
                "an invitation has no end",
                "    if now is not None and now > found.until:\n",
                "    if False:\n",
                "test_other_job_other_authority_and_other_times_are_refused",
            ),
            (
                "any signature of the authority invites",
                '_SIGNED = b"tacit: invitation\\n"\n',
                '_SIGNED = b""\n',
                "test_a_signature_of_the_authority_for_something_else_is_none",
            ),
            (
                "a number is given twice",
                "        if given in taken or not members <= given <= LAST_NUMBER:\n",
                "        if not members <= given <= LAST_NUMBER:\n",
                "test_two_names_never_share_a_number_and_a_name_keeps_its_own",
            ),
            (
                "a number of a member is given",
                "        if given in taken or not members <= given <= LAST_NUMBER:\n",
                "        if given in taken:\n",
                "test_two_names_never_share_a_number_and_a_name_keeps_its_own",
            ),
        ],
    ),
    *of(
        "config/peer.py",
        INVITATION,
        [
            (
                "the invitation of another peer is used",
                "    if found.name != name or found.role not in job.members:\n",
                "    if False:\n",
                "test_the_invitation_of_another_peer_or_job_is_refused",
            ),
        ],
    ),
    *of(
        "config/job.py",
        INVITATION,
        [
            (
                "fixed members take invitations",
                "        if self.algorithm.membership is None:\n",
                "        if False:\n",
                "test_nobody_is_invited_to_fixed_members_and_no_member_is",
            ),
        ],
    ),
)
