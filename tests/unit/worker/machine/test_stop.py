"""What stops a worker, and what stops one of its jobs."""

from tidemill.worker.machine.stop import JobStop, Stop, StopReason


def test_the_flag_keeps_its_first_reason():
    stop, woken = Stop(), []
    stop.on_raise(lambda: woken.append(1))
    assert not stop.wait(0)
    stop.set(StopReason.NOTICE)
    stop.set(StopReason.SIGNAL)
    assert stop.raised
    assert (stop.reason, woken) == (StopReason.NOTICE, [1])


def test_one_job_ends_alone():
    worker = Stop()
    one, other = JobStop(worker), JobStop(worker)
    assert not one.wait(0.01)
    one.set(StopReason.CANCELLED)
    assert (one.raised, one.cancelled, other.raised, worker.raised) == (True, True, False, False)
    assert one.wait(60)


def test_a_worker_ends_all_its_jobs():
    worker = Stop()
    one = JobStop(worker)
    worker.set(StopReason.NOTICE)
    assert (one.raised, one.cancelled) == (True, False)
    assert one.wait(60)
