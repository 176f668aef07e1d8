// Package progress stores the progress of handlers on an object: their successes, their permanent failures, and the times
// of their next attempts. The records survive restarts of the process and are compatible with kopf. Package kopf uses this
// package. Other reconcilers can use it, too:
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
// A [Record] is the stored progress of one handler for one cause: its attempts, the time of the next attempt, and its
// result. A [Store] writes records to objects and reads them.
//
// [Load] reads the records of an object into a [State], and [State.Begin] selects the handlers of a cause.
// [State.Due] returns the handlers that may be called now, and a [Lifecycle] chooses among them. [Policy.Attempt]
// calls one handler and returns an [Outcome], which [State.RecordOutcome] adds to the record. [State.Save] writes the
// records to the object. When [State.Done] reports that all handlers have finished, [State.Purge] removes the records.
// Until then, [State.Delay] returns the time until the next handler is due. [Run] performs these steps in one call, without a
// lifecycle. Run does not purge the records when all handlers have finished.
//
// A [Baseline] stores the last-handled configuration of the object, which is the essence with which the last cycle ended. The
// essence consists of the spec, labels, annotations and other fields that count for change detection.
//
// # Stores
//
//   - [Smart] and [AnnotationBaseline] use annotations with the prefix of kopf. They are the defaults of package kopf. Smart also reads older records in the status.
//   - [Annotations] uses annotations with a different prefix.
//   - [AnnotationsV2] and [AnnotationBaselineV2] omit the keys for older versions of kopf.
//   - [Status] and [StatusBaseline] use fields of the object, which its Go type and its schema must have.
//   - [Multi] and [MultiBaseline] use several stores or baselines at the same time, for a migration.
//   - [InMemory] keeps the records in the memory of the process.
//   - [WithHistory] adds the last finished handlers to a store.
//   - [ByHandler] uses different stores for different handlers.
//   - [IgnoringFields] makes a baseline ignore some fields.
//
// You can also use any other type with the methods of [Store] or [Baseline]. A store or a baseline may also implement [Checker],
// [FieldUser] and [AnnotationUser]. A store may also implement [KeyChecker], [Sweeper], [Archiver] and [Forgetter]. A type that embeds
// the interface Store or Baseline does not inherit these optional methods. A [Remote], such as [SideObjects], stores the records and the
// baseline outside of the object.
//
// # Guarantees
//
//   - A handler is not called again for a cause once its success or permanent failure is stored on the object.
//   - For another cause, a finished handler starts again. An unfinished handler keeps its attempts and its delay, so editing the object does not shorten a backoff.
//   - By default, the keys and values of records and baselines are compatible with kopf 1.44. This includes the older and the newer form of long keys. kopf and this library can continue each other's cycles.
//   - Stores write annotations in ASCII and times in UTC. Apart from [HistoryAnnotation], they do not change annotations with other prefixes.
//   - Stores do not modify maps that the object shares with a cache.
//   - A panic of a handler is treated as an error. The outcome of one handler does not affect other handlers.
//
// # Requirements
//
// Stores and baselines change the object in memory only. The caller writes the object to the API server, even after a
// failed attempt, because the limits count only stored attempts. Only one process may handle an object at a time, and it
// must start with the latest written version.
//
// The id of a handler must stay the same between versions of the operator, because another id is another handler.
//
// The clocks of the machines that handle an object must agree. If the start or the last attempt in a record is in the future, the
// clock of the writer was ahead. [State.Begin] then moves the times back. If the clock of the writer was behind, delays and timeouts
// are shorter.
//
// # Caveats
//
//   - If the process exits between an attempt and the write of its record, the next process repeats the attempt. Handlers must be idempotent.
//   - [Policy.Timeout] does not interrupt an attempt. [Policy.AttemptTimeout] interrupts an attempt if the handler observes its context.
//   - Only a [Sweeper] removes the records of unknown ids. Do not call Sweep if another operator uses the same prefix. By default, all operators use the prefix of kopf.
//   - A change to the annotations increases the generation of a Deployment, but not of a custom resource. Do not derive the cause of [Run] from the generation of a Deployment.
//   - The API server limits all annotations of an object together to 256 KiB. Therefore, records store only the beginning of a long error.
//   - Decoding drops fields that the Go type lacks, and the API server prunes fields that the schema lacks. If you use [Status] or [StatusBaseline], call [CheckType] and [CheckSchema] at startup.
//   - [Status] and [StatusBaseline] convert the whole object for each access, unless it is unstructured. Annotations are faster.
//
// # Errors
//
// Handlers return [Temporary] and [Permanent] errors. [Policy.Errors] defines the meaning of all other errors.
// [LimitError] wraps the last error of a handler that reached a limit, and [PanicError] holds a recovered panic.
// [Expected] reports whether an error needs no stack trace in the log.
//
// The errors of [Load], [State.Save] and [State.Purge] are errors of the store. An [UnreadableError] reports stored data that cannot
// be decoded. The caller treats the record as absent and continues.
package progress
