// Package daemons runs background functions for Kubernetes objects: daemons, which run until their object is deleted,
// and timers, which are called repeatedly. Package kopf uses this package. Other reconcilers can use it, too:
//
//	supervisor := daemons.New(daemons.Options{OnEnd: func(key daemons.Key) { ... }}) // mgr.Add(supervisor)
//
//	// in Reconcile:
//	key := daemons.Key{UID: obj.UID, ID: "watch"}
//	if !obj.DeletionTimestamp.IsZero() {
//		supervisor.StopAll(obj.UID, daemons.ErrDeleted)
//		if supervisor.Busy(obj.UID) {
//			return reconcile.Result{}, nil // keep the finalizer; OnEnd triggers the next reconcile
//		}
//		supervisor.Forget(obj.UID)
//		return reconcile.Result{}, r.removeFinalizer(ctx, obj)
//	}
//	return reconcile.Result{}, supervisor.Ensure(key, daemons.Task{Run: watch})
//
// # Concepts
//
// A [Task] is a daemon or, with a [Timer], a timer. A [Key] identifies a task by the uid of the object and the id of the
// handler. [Supervisor.Ensure] starts a task, [Supervisor.Stop] and [Supervisor.StopAll] stop it, and
// [Supervisor.Forget] discards the state of a deleted object.
//
// A run is one call of the function, and one attempt of the handler. A [progress.Policy] determines its outcome. An invocation of a
// timer consists of the first attempt and its retries. The supervisor keeps all state in memory and writes nothing to objects.
//
// A daemon that has succeeded or failed permanently is not started again, unless its [RestartPolicy] restarts it. A timer waits for its next point in time.
// After a permanent failure, a timer waits until [Supervisor.Touch] reports a relevant change to the object. A timer without an
// Interval and a Schedule also waits for Touch after a success. Touch also restarts the idle time of timers.
//
// Stopping a run cancels its context. [context.Cause] returns the reason: [ErrDeleted], [ErrFilteredOut], [ErrPaused],
// [ErrOutOfScope] or [ErrShutdown]. If the function does not return within CancellationBackoff, the supervisor logs a warning.
// If a CancellationTimeout is set and also passes, the supervisor abandons the run and [Supervisor.Busy] no longer counts it.
//
// One goroutine waits for the earliest due time of all tasks. Other goroutines exist only for running functions. A
// due timer starts immediately if fewer than MaxParallel timers of its group are running. Otherwise, the supervisor
// queues the timer.
//
// # Guarantees
//
//   - At most one run of a key exists at any time. If the old run is abandoned, a new one starts only after the old function has returned.
//   - A timer never overlaps with itself.
//   - Sharp timers with an Anchor keep their points in time across restarts, pauses and failures. No point is used twice. Missed points cause at most one invocation.
//   - Stop, StopAll, Forget and Pause cancel the contexts before they return.
//   - No run starts during a pause.
//   - Start returns within a bounded time after its context is cancelled. After it has returned, no run starts and OnEnd is not called.
//   - The supervisor treats a panic as an error.
//
// # Requirements
//
// Call Forget when an object no longer exists. Until then, the supervisor stores which tasks have ended. A delete event of a cache does not prove that the
// object is deleted: it may only have lost the labels of a selector. If functions depend on the difference, call [Supervisor.StopWaiting],
// ask the API server, and stop the runs with [ErrDeleted] or [ErrOutOfScope] before you call Forget. Functions must return
// soon after their context is cancelled. All timers of a group must have the same MaxParallel. Otherwise, the
// supervisor uses the value of the timer that was added last.
//
// # Caveats
//
//   - Ensure does not replace the task of a running daemon or timer. Functions must read the latest state of the object themselves.
//   - State is not stored. After a restart of the process, daemons start again. A timer without Last, Idle, Anchor and Schedule is then invoked immediately.
//   - A function that never returns blocks its goroutine and its key. It counts towards the limit of its group until the supervisor abandons the run. Use AttemptTimeout for timers.
//   - If the wall clock is changed, waiting invocations keep their due time. Later invocations use the new clock.
//   - The context of a run has the values of the context of Start. Therefore the logger in the context has no values for the object.
//
// # Errors
//
// [Task.Check] and Ensure return all errors of a task definition. The supervisor logs and counts errors of functions;
// see [progress.Temporary] and [progress.Permanent]. It also logs runs that ignore the cancellation of their context, and
// counts them in the metrics kopf_background_unstopped and kopf_background_abandoned_total. The metric
// kopf_timer_drift_seconds measures the time from the due time of a timer to the start of its run.
package daemons
