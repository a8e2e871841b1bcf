"""All mutants, in the groups for which the share that is killed must be large enough."""

from __future__ import annotations

from tests.mutation import (
    accounting_mutants,
    charge_mutants,
    clipping_mutants,
    correlation_mutants,
    door_mutants,
    enforcement_mutants,
    epoch_mutants,
    event_mutants,
    identity_mutants,
    interop_mutants,
    ledger_mutants,
    model_mutants,
    observer_mutants,
    record_mutants,
    release_mutants,
    result_mutants,
    round_mutants,
    sampling_mutants,
    store_mutants,
    tracing_mutants,
)

GROUPS = {
    "clipping": clipping_mutants.MUTANTS,
    "samplers": sampling_mutants.MUTANTS,
    "events": event_mutants.MUTANTS,
    "accounting": accounting_mutants.MUTANTS,
    "charges": charge_mutants.MUTANTS,
    "records": record_mutants.MUTANTS,
    "enforcement": enforcement_mutants.MUTANTS,
    "ledger": ledger_mutants.MUTANTS,
    "releases": release_mutants.MUTANTS,
    "correlated noise": correlation_mutants.MUTANTS,
    "store": store_mutants.MUTANTS,
    "results": result_mutants.MUTANTS,
    "rounds": round_mutants.MUTANTS,
    "epochs": epoch_mutants.MUTANTS,
    "tracing": tracing_mutants.MUTANTS,
    "doors": door_mutants.MUTANTS,
    "identity": identity_mutants.MUTANTS,
    "observers": observer_mutants.MUTANTS,
    "wrappers": interop_mutants.MUTANTS,
    "models": model_mutants.MUTANTS,
}
