"""The durable ledger: every release is booked before it leaves."""
