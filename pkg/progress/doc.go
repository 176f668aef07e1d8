// Package progress stores the progress of handlers on an object: which have succeeded or failed permanently, and when the others are called
// next. The records survive restarts of the process and are compatible with kopf. Package kopf is built on it, but you can use it in any
// reconciler:
//
//	before := obj.DeepCopy()
//	cause := fmt.Sprintf("generation-%d", obj.Generation)
//	report, err := progress.Run(ctx, progress.Annotations("volumes.example.com"), obj, cause,
//		progress.Step{ID: "create", Do: createVolume},
//		progress.Step{ID: "announce", Do: announceVolume, Policy: progress.Policy{Retries: new(5)}},
//	)
//	if err := errors.Join(err, r.Patch(ctx, obj, client.MergeFrom(before))); err != nil {
//		return reconcile.Result{}, err
//	}
//	return reconcile.Result{RequeueAfter: report.RequeueAfter}, nil
//
// # Concepts
//
// A [Record] is the stored progress of one handler for one cause: its attempts, the time of the next attempt, and its result. A [Store]
// reads records from objects and writes them.
//
// [Load] reads the records of an object into a [State], and [State.Begin] selects the handlers of a cause. [State.Due] returns the handlers
// that may be called now, and a [Lifecycle] chooses among them. [Policy.Attempt] calls one handler and returns an [Outcome], which
// [State.RecordOutcome] adds to the record. [State.Save] writes the records to the object. Once [State.Done] reports that all handlers have
// finished, [State.Purge] removes the records. Until then, [State.Delay] returns the time until the next handler is due. [Run] does all
// this in one call, but without a lifecycle, and it keeps the records when all handlers have finished.
//
// A [Baseline] stores the last-handled configuration of the object, which is the essence the last cycle ended with. The essence consists of
// the spec, labels, annotations and other fields that count for change detection.
//
// # Stores
//
//   - [Smart] and [AnnotationBaseline] use annotations with the prefix of kopf. They are the defaults of package kopf. Smart also reads
//     older records in the status.
//   - [Annotations] uses annotations with your own prefix.
//   - [AnnotationsV2] and [AnnotationBaselineV2] omit the keys for older versions of kopf.
//   - [Status] and [StatusBaseline] use fields of the object, which its Go type and its schema must have.
//   - [Multi] and [MultiBaseline] use several stores or baselines at the same time, so that you can migrate.
//   - [InMemory] keeps the records in the memory of the process.
//   - [WithHistory] adds the last finished handlers to a store.
//   - [ByHandler] uses different stores for different handlers.
//   - [IgnoringFields] makes a baseline ignore some fields.
//
// You can also write your own [Store] or [Baseline]. Both can implement [Checker], [FieldUser] and [AnnotationUser], and a store can also
// implement [KeyChecker], [Sweeper], [Archiver] and [Forgetter]. A type that embeds the interface Store or Baseline doesn't inherit these
// optional methods. A [Remote], such as [SideObjects], stores the records and the baseline outside of the object.
//
// # Guarantees
//
//   - A handler is not called again for a cause once its success or permanent failure is stored on the object.
//   - For a new cause, a finished handler starts again. An unfinished one keeps its attempts and its delay, so editing the object doesn't
//     shorten a backoff.
//   - By default, the keys and values of records and baselines are compatible with kopf 1.44. This includes the older and the newer form of
//     long keys. So kopf and this library can continue each other's cycles.
//   - Stores write annotations in ASCII and times in UTC. Apart from [HistoryAnnotation], they don't change annotations with other
//     prefixes.
//   - Stores don't modify maps that the object shares with a cache.
//   - A panic of a handler is treated as an error. The outcome of one handler doesn't affect the others.
//
// # Requirements
//
// Stores and baselines change the object only in memory. You must write it to the API server, even after a failed attempt, because the
// limits count only stored attempts. Only one process may handle an object at a time, and it must start with the latest written version.
//
// Don't change the id of a handler between versions of the operator: with a different id, it is a different handler.
//
// The clocks of the machines that handle an object must agree. If the start or the last attempt in a record is in the future, the writer's
// clock was ahead, so [State.Begin] moves the times back. If it was behind, delays and timeouts are shorter.
//
// # Caveats
//
//   - If the process exits after an attempt but before its record is written, the next process repeats the attempt. So handlers must be
//     idempotent.
//   - [Policy.Timeout] doesn't interrupt an attempt. [Policy.AttemptTimeout] does, if the handler observes its context.
//   - Only a [Sweeper] removes the records of unknown ids. Don't call Sweep if another operator uses the same prefix. By default, all
//     operators use the prefix of kopf.
//   - Changing annotations increases the generation of a Deployment, but not of a custom resource. So don't derive the cause of [Run] from
//     the generation of a Deployment.
//   - All annotations of an object together may have at most 256 KiB, so records store only the beginning of a long error.
//   - Decoding drops fields that the Go type lacks, and the API server prunes fields that the schema lacks. If you use [Status] or
//     [StatusBaseline], call [CheckType] and [CheckSchema] at startup.
//   - [Status] and [StatusBaseline] convert the whole object for each access, unless it is unstructured, so annotations are faster.
//
// # Errors
//
// Handlers return [Temporary] and [Permanent] errors. [Policy.Errors] defines the meaning of all other errors. [LimitError] wraps the last
// error of a handler that reached a limit, and [PanicError] holds a recovered panic. [Expected] reports whether an error can be logged
// without a stack trace.
//
// [Load], [State.Save] and [State.Purge] return errors of the store. An [UnreadableError] reports stored data that can't be decoded; treat
// the record as absent and continue.
package progress
