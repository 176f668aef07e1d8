// Package daemons runs work that accompanies an object for as long as it lives: daemons, which are functions that run
// until they are told to stop, and timers, which are functions that are called again and again. It is what package
// kopf stands on, and of use without it, in any reconciler:
//
//	supervisor := daemons.New(daemons.Options{OnEnd: func(key daemons.Key) { ... }}) // mgr.Add(supervisor)
//
//	// in Reconcile:
//	key := daemons.Key{UID: obj.UID, ID: "watch"}
//	if !obj.DeletionTimestamp.IsZero() {
//		supervisor.StopAll(obj.UID, daemons.ErrDeleted)
//		if supervisor.Busy(obj.UID) {
//			return reconcile.Result{}, nil // the finalizer stays; OnEnd brings us back
//		}
//		supervisor.Forget(obj.UID)
//		return reconcile.Result{}, r.removeFinalizer(ctx, obj)
//	}
//	return reconcile.Result{}, supervisor.Ensure(key, daemons.Task{Run: watch})
//
// # Flow
//
// [Supervisor.Ensure] starts a [Task] for a [Key], [Supervisor.Stop] and [Supervisor.StopAll] end it, and
// [Supervisor.Forget] is for objects that are gone. All due times are in one heap: of first invocations, retries,
// restarts, and of the reports and abandonments of runs that do not stop. One goroutine sleeps until the first of
// them; other goroutines exist only for invocations that run. A timer that is due begins at once if fewer than
// MaxParallel of its group run, and waits in line otherwise.
//
// How an invocation has ended is judged by its [progress.Policy], in memory: nothing is written to objects. A daemon that
// has ended stays down unless its [RestartPolicy] says otherwise. A timer goes on; if it has failed for good, it
// waits until [Supervisor.Touch] tells that its object has changed in a way that matters, which also begins the idle
// time of timers anew.
//
// A run is told to stop by the end of its context, and why by [context.Cause]: [ErrDeleted], [ErrFilteredOut],
// [ErrPaused], [ErrShutdown]. After the CancellationBackoff of its task it is reported if it has not ended, after the
// CancellationTimeout it is abandoned: [Supervisor.Busy] does not count it any more. If it is to be there again
// by then, it is started when the old run has ended.
//
// # Guarantees
//
// There is never more than one run of a key, not even if the old one is abandoned: then the new one waits. A timer
// does not overlap with itself. What waits has exactly one due time; one that has passed is at once, and once. Sharp timers
// with an Anchor keep their points over restarts, pauses and failures, and no point is used twice.
//
// Contexts end before Stop, StopAll, Forget and Pause return. During a pause nothing is started. Start returns
// within a bounded time after its context has ended, and nothing is started any more; OnEnd is not called from then on.
// A panic is an error like any other.
//
// # Assumptions
//
// Whoever calls Ensure calls Forget when the object is gone: what is at an end is remembered until then. Functions
// return soon when their context is done. Timers of one handler have the same MaxParallel; otherwise the last one
// counts.
//
// # Caveats
//
// Ensure does not replace the task of what is there: a function reads the newest state itself when it runs. Nothing is
// known of what ran before a restart of the process, so daemons begin anew and plain timers are invoked at once, unless
// [Timer].Last tells more. A function that never returns keeps its goroutine, its key, and before it is abandoned its place in
// the group; use AttemptTimeout for timers. When the wall clock is set, invocations that are waiting for a point
// of it keep their time, and the following ones have the new one.
//
// The context of a run has the values of Start's context, so its logger does not tell of the object.
//
// # Errors
//
// [Task.Check] and Ensure tell all mistakes in a task, and what to do. Errors of functions are logged and counted, by the
// outcome that the policy makes of them; [progress.Temporary] and [progress.Permanent] say what they mean. Runs that
// ignore their contexts are in the log, with their object, handler, and for how long, and in the metrics
// kopf_background_unstopped and kopf_background_abandoned_total; kopf_timer_drift_seconds tells how late timers are.
package daemons
