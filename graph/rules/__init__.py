"""Every decision as a pure function, a module a subject: `acceptance` says why a change is kept, `stop` why it ends."""
