from __future__ import annotations

from threading import Thread

from tensorel.stats import feedback


def test_least_recently_used_are_forgotten():
    store = feedback.Feedback(limit=3)
    for k in range(3):
        store.remember(("plan", k), k * 10)
    assert store.recall(("plan", 0)) == 0.0
    store.remember(("plan", 3), 30)
    assert store.recall(("plan", 1)) is None and store.recall(("plan", 0)) == 0.0
    assert len(store) == 3
    store.remember(("plan", 0), 7)
    assert store.recall(("plan", 0)) == 7.0
    store.forget()
    assert len(store) == 0


def test_many_threads():
    store = feedback.Feedback(limit=50)

    def work(seed):
        for k in range(500):
            store.remember((seed, k % 70), k)
            store.recall((seed, (k * 7) % 70))

    threads = [Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(store) == 50


def test_of_the_process():
    feedback.remember("test_of_the_process", 12)
    assert feedback.recall("test_of_the_process") == 12.0
    assert feedback.recall("never seen") is None
