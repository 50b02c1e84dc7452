"""The requests that do not take the fast path of the native transport."""

import proa_serving.schedule.quick as quick_runs


def record(monkeypatch, kind, method, name):
    """A list of an attribute of the first argument of all calls of a method, which
    answers the requests that are not repeated. Every model counts as quick.
    """
    monkeypatch.setattr(quick_runs, "_SECONDS", 10.0)
    seen = []
    answer = getattr(kind, method)

    def recorded(self, first, *others):
        seen.append(getattr(first, name))
        return answer(self, first, *others)

    monkeypatch.setattr(kind, method, recorded)
    return seen
