// Package daemons runs background functions for Kubernetes objects: daemons, which run until their object is deleted, and timers, which are
// called repeatedly. Package kopf is built on it, but you can use it in any reconciler:
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
// A [Task] is a daemon or, with a [Timer], a timer. A [Key] identifies a task by the object's uid and the handler's id.
// [Supervisor.Ensure] starts a task, [Supervisor.Stop] and [Supervisor.StopAll] stop it, and [Supervisor.Forget] discards the state of a
// deleted object.
//
// A run is one call of the function, and so one attempt of the handler; its outcome depends on the [progress.Policy]. A timer's invocation
// is the first attempt plus its retries. The supervisor keeps all state in memory and writes nothing to objects.
//
// A daemon that has succeeded or failed permanently isn't started again, unless its [RestartPolicy] says so. A timer waits for its next
// point in time, but after a permanent failure it waits until [Supervisor.Touch] reports a relevant change to the object. Without an
// Interval or a Schedule, it does so even after a success. Touch also restarts the idle time of timers.
//
// Stopping a run cancels its context. [context.Cause] returns the reason: [ErrDeleted], [ErrFilteredOut], [ErrPaused], [ErrOutOfScope] or
// [ErrShutdown]. If the function doesn't return within CancellationBackoff, the supervisor logs a warning. If a CancellationTimeout is set
// and passes as well, the supervisor abandons the run and [Supervisor.Busy] no longer counts it.
//
// One goroutine waits for the earliest due time of all tasks; the others run functions. A due timer starts immediately, unless MaxParallel
// timers of its group are already running. In that case it is queued.
//
// # Guarantees
//
//   - At most one run of a key exists at any time. Even if a run is abandoned, a new one starts only after the old function has returned.
//   - A timer never overlaps with itself.
//   - Sharp timers with an Anchor keep their points in time across restarts, pauses and failures. No point is used twice. Missed points
//     cause at most one invocation.
//   - Stop, StopAll, Forget and Pause cancel the contexts before they return.
//   - No run starts during a pause.
//   - Start returns within a bounded time after its context is cancelled. After it has returned, no run starts and OnEnd is not called.
//   - The supervisor treats a panic as an error.
//
// # Requirements
//
// Call Forget when an object no longer exists. Until then, the supervisor remembers which tasks have ended. A delete event from a
// cache doesn't prove that the object is deleted, because the object may just no longer match the cache's label selector. If your functions
// care about the difference, call [Supervisor.StopWaiting], ask the API server, and stop the runs with [ErrDeleted] or [ErrOutOfScope]
// before you call Forget. Functions must return soon after their context is cancelled. All timers of a group should have the same
// MaxParallel, because the value of the timer that was added last applies to all of them.
//
// # Caveats
//
//   - Ensure doesn't replace the task of a running daemon or timer, so functions must read the latest state of the object themselves.
//   - State isn't stored, so daemons start again after a restart of the process. A timer without Last, Idle, Anchor and Schedule is then
//     invoked immediately.
//   - A function that never returns blocks its goroutine and its key. It counts towards its group's limit until the supervisor abandons the
//     run. Use AttemptTimeout for timers.
//   - If the wall clock is changed, invocations that are already scheduled keep their due time. Later ones use the new clock.
//   - The context of a run has the values of Start's context, so its logger has no values for the object.
//
// # Errors
//
// [Task.Check] and Ensure return all errors in a task definition. The supervisor logs and counts errors of functions; see
// [progress.Temporary] and [progress.Permanent]. It also logs runs that ignore the cancellation of their context, and counts them in the
// metrics kopf_background_unstopped and kopf_background_abandoned_total. The metric kopf_timer_drift_seconds measures the time from the due
// time of a timer to the start of its run.
package daemons
