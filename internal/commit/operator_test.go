package commit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// operator is the process that writes to the object of a server.
type operator struct {
	*server
	committer *commit.Committer
	memory    commit.Memory
	handlers  []string
	ctx       context.Context       //nolint:containedctx // it contains the logger of the test
	report    func(*commit.Session) // adds the conditions about handlers
	session   *commit.Session
	pending   *commit.Session // its write has failed
	aborted   bool            // a write was rejected, or the object was deleted

	pauses      int32
	ended       bool
	cached      *unstructured.Unstructured // the object in the cache; nil if it does not exist
	awaited     []string                   // versions that the cache must show
	ownVersions []string
	edited      []string // own versions that contain changes of other clients
	received    []string // versions of responses
	baselines   []string
	warnings    []string // reasons of Events
	logs        []string
	afterWrites []string
	afterParts  []string
	wasDeleted  int
}

func newOperator(t *testing.T, b *commit.Builder, obj *unstructured.Unstructured) *operator {
	o := &operator{server: newServer(t, obj), handlers: b.HandlerIDs}
	o.ctx = log.IntoContext(t.Context(), o.logger())
	newObject := func() client.Object {
		out := &unstructured.Unstructured{}
		out.SetGroupVersionKind(widgetGVK)
		return out
	}
	o.committer = &commit.Committer{
		Builder: b,
		Writer: &patch.Writer{
			Client: o.server, APIReader: o.server, NewObject: newObject, GVK: widgetGVK, HasStatus: b.HasStatus,
		},
		Name: "widget",
		ReadCached: func(context.Context, client.ObjectKey) (client.Object, error) {
			if o.cached == nil {
				return nil, nil
			}
			return o.cached, nil
		},
		ReadLive: func(ctx context.Context, key client.ObjectKey) (client.Object, error) {
			obj := newObject()
			if err := o.Get(ctx, key, obj); err != nil {
				return nil, client.IgnoreNotFound(err)
			}
			return obj, nil
		},
		Pauses: func() int32 { return o.pauses }, HasEnded: func() bool { return o.ended },
		OnWritten: func(obj client.Object) { o.received = append(o.received, obj.GetResourceVersion()) },
		OnVersions: func(_ types.UID, versions []commit.WrittenVersion) {
			for _, v := range versions {
				o.ownVersions = append(o.ownVersions, v.Version)
				if v.EditedAfter != "" {
					o.edited = append(o.edited, v.Version+" after "+v.EditedAfter)
				}
			}
		},
		OnBaseline: func(_ types.UID, stored []byte) { o.baselines = append(o.baselines, string(stored)) },
		Warn:       func(_ client.Object, reason, _ string) { o.warnings = append(o.warnings, reason) },
	}
	o.hasStatus = b.HasStatus
	return o
}

func (o *operator) logger() logr.Logger {
	return funcr.New(func(_, line string) { o.logs = append(o.logs, line) }, funcr.Options{})
}

// reportConditions adds the conditions about handlers to the draft.
func (o *operator) reportConditions(ctx context.Context) {
	o.session.RaiseObserved(ctx)
	if o.report != nil {
		o.report(o.session)
	}
}

// tryWrite writes the changes of a session, and records the result.
func (o *operator) tryWrite(s *commit.Session) (client.Object, error) {
	result, err := s.Write(o.ctx, o.reportConditions)
	if o.pending = nil; result.Pending {
		o.pending = s
	}
	o.aborted = o.aborted || result.Rejected || result.Deleted
	if result.Deleted {
		o.wasDeleted++
	}
	o.note(result)
	return result.Object, err
}

// flush writes the status that a running handler has changed, and records the result.
func (o *operator) flush(s *commit.Session, id string, copied client.Object) error {
	err := s.Flush(o.ctx, id, copied)
	o.note(s.Result())
	return err
}

func (o *operator) note(result commit.Result) {
	o.awaited = append(o.awaited, result.Awaited...)
	for _, accepted := range result.Accepted {
		text := fmt.Sprint(accepted.Version, accepted.Changes.Paths())
		if accepted.Whole {
			o.afterWrites = append(o.afterWrites, text)
		} else {
			o.afterParts = append(o.afterParts, text)
		}
	}
}

// begin starts a reconcile of the object as the API server has it.
func (o *operator) begin(options ...func(*cause.Input)) *commit.Session {
	o.t.Helper()
	s := o.committer.NewSession(&o.memory)
	o.session = s
	s.Pauses = o.pauses
	if err := s.Draft.SetBase(o.object()); err != nil {
		o.t.Fatal(err)
	}
	if err := s.UseOverlay(o.ctx); err != nil {
		o.t.Fatal(err)
	}
	b := o.committer.Builder
	state, err := progress.Load(b.Store, s.Draft.Base(), o.handlers)
	if err != nil {
		o.t.Fatal(err)
	}
	s.Records = state
	in := cause.Input{
		Facts:   cause.Facts{Deleting: s.Draft.Base().GetDeletionTimestamp() != nil, HasFinalizer: len(s.Draft.Base().GetFinalizers()) > 0},
		Content: s.Draft.Content(), Baseline: b.Baseline.Fetch(s.Draft.Base()), Pin: b.Pin.Fetch(s.Draft.Base()), Progress: state, Log: o.logger(),
	}
	for _, option := range options {
		option(&in)
	}
	s.Cause = b.Detector.Detect(in)
	if s.Cause.Reason.HasHandlers() {
		state.Begin(string(s.Cause.Reason), o.handlers, now)
	}
	return s
}

var (
	succeeds = progress.Outcome{Final: true, Success: true, Attempted: true}
	backoff  = 42 * time.Second
)

// call makes an attempt of a handler that changes its copy of the object, and records its outcome.
func (o *operator) call(s *commit.Session, id string, outcome progress.Outcome, doc patch.MergePatch) *commit.HandlerPatch {
	o.t.Helper()
	p := &commit.HandlerPatch{ID: id, Policy: progress.Policy{Backoff: &backoff}, Before: s.Records.Record(id), Base: s.Draft.Current().Content, Outcome: outcome}
	copied := &unstructured.Unstructured{Object: doc.Apply(s.Draft.Current().Content)}
	var err error
	if p.Patch, err = o.committer.TakeChanges(o.ctx, s.Draft, id, copied.DeepCopy()); err != nil {
		o.t.Fatal(err)
	}
	s.Draft.Add(p)
	s.Records.RecordOutcome(id, outcome, now)
	return p
}

// finish makes successful attempts of handlers that change nothing.
func (o *operator) finish(s *commit.Session, ids ...string) *commit.Session {
	o.t.Helper()
	for _, id := range ids {
		o.call(s, id, succeeds, nil)
	}
	s.EndCalls(false)
	return s
}

// write expects that a write succeeds.
func (o *operator) write(s *commit.Session) *unstructured.Unstructured {
	o.t.Helper()
	written, err := o.tryWrite(s)
	if err != nil {
		o.t.Fatal(err)
	}
	if written == nil {
		return nil
	}
	if o.pending != nil {
		o.t.Error("the session is pending after a write without an error")
	}
	return written.(*unstructured.Unstructured)
}

// field returns the value of a field of the object on the server.
func (o *operator) field(path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.content, path...)
	return value
}

// phase returns a change of the phase in the status.
func phase(value string) patch.MergePatch { return patch.MergePatch{"status": m{"phase": value}} }

// own returns a change of a field in the spec.
func own(value string) patch.MergePatch { return patch.MergePatch{"spec": m{"own": value}} }
