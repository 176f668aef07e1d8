// Package progress remembers on an object what was done for it: which handlers have succeeded for
// the present cause, which have failed for good, which are to be tried again and when. Nothing of it
// is lost when the process restarts, and kopf can read it and go on with it. It is what package kopf
// stands on, and of use without it, in any reconciler:
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
// # Flow
//
// [Load] reads the [Record] of each handler from a [Store] into a [State], and [State.Begin] selects
// those of a cause. [State.Due] names the ones that may be called now, a [Lifecycle] picks from them.
// [Policy.Attempt] calls one and judges how it ended; [State.Settle] takes its [Outcome] in. Then
// [State.Save] puts the records on the object, or [State.Purge] removes them, when [State.Done] says
// that the cause is over; [State.Delay] says when to come back until then. [Run] is all of this in one
// call, except that it keeps the records of the last cause, and has no use for a lifecycle.
//
// A [Baseline] keeps beside the records what the object was like when it was last handled.
//
// # Places
//
//	Smart, AnnotationBaseline   annotations of kopf's prefix, and older records of the status: the default
//	Annotations                 annotations of a prefix of one's own
//	AnnotationsV2               the same without the keys for older versions of kopf
//	Status, StatusBaseline      fields of the object, which its Go type and its schema must have
//	Multi, MultiBaseline        several of these at once, to move from one to another
//	IgnoringFields              a baseline that does not look at some fields
//
// A place of one's own is any type with the four methods of [Store], or the three of [Baseline]. What else it
// can do is told by further methods: [Checker], [KeyChecker], [FieldUser], [Sweeper]. A type that embeds one of
// the interfaces Store or Baseline hides them.
//
// # Guarantees
//
// A handler whose success or final failure is on the object is not called again for that cause.
// For another cause it begins anew; but one that is still failing keeps its attempts and its delay,
// so that no edit of the object shortens a backoff.
//
// Keys and values are those of kopf 1.44, in both of its generations of keys: each side continues
// what the other has begun. All annotations that are written are ASCII, and times are in UTC. Annotations
// of other prefixes are never touched, nor are the maps that an object shares with its copy in a cache.
//
// A panic of a handler is an error like any other. Outcomes of one handler do not affect another.
//
// # Assumptions
//
// Stores and baselines work on the object in memory: whoever calls them writes it to the API server,
// after a failed attempt, too, for that is what the attempt is counted by. One process at a time
// handles an object, and begins with what was last written, not with an older copy from a cache.
//
// Ids stay the same from version to version: another id is another handler. The clocks of machines
// that handle an object one after the other agree. A record whose times are in the future was written by a clock that is ahead:
// [State.Begin] moves its times back, so that no delay is longer than it was. A clock that is behind shortens delays and timeouts.
//
// # Caveats
//
// Between an attempt and the write of its record the process can die: that attempt is made again,
// so handlers have to bear it. [Policy.Timeout] does not interrupt an attempt; [Policy.AttemptTimeout]
// does, if the handler looks at its context.
//
// Records of ids that are not asked for are neither read nor removed, except by a [Sweeper]: that one must
// not be used where others keep records, too, and by default all operators share the prefix of kopf.
// A change of annotations raises the generation of a Deployment, but of no other kind: there, a cause of [Run] that is made from the
// generation would never be over. Annotations have a limit of 256 KiB for all of an object together, so of a long error only the beginning
// is remembered. The status has a limit, too, that of the request.
//
// Fields that the Go type of an object does not have are lost in decoding, before this package sees them,
// and those that the schema of a custom resource does not have are dropped by the API server: with [Status]
// and [StatusBaseline] call [CheckType] and [CheckSchema] at the start. A status of a Go type is converted at
// each call; annotations are cheaper. [Smart] reads and purges records in the status where it finds the field,
// and does without where it does not.
//
// # Errors
//
// Handlers say with [Temporary] and [Permanent] what their errors mean; others mean what
// [Policy.Errors] says. [LimitError] stands for a handler that was given up, [PanicError] for one that
// panicked, and [Expected] tells planned errors from surprises. Functions of this package that return
// errors speak of the store: [UnreadableError] is stored state that is broken and therefore taken as
// absent, never a reason to stop. [Checker] and [KeyChecker], [CheckType] and [CheckSchema] tell mistakes
// before anything is touched, and what to do. [Run] refuses ids that clash before it calls anything.
package progress
