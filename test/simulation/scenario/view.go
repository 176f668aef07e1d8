package scenario

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// view is the state of an object after the last write of the operator. No other client writes the records and the baseline. The zero view is for an
// object that the operator has not written.
type view struct{ obj *unstructured.Unstructured }

// updateView records the result of a write of the operator.
func (w *world) updateView(process int, text []byte) error {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &obj.Object); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	was, is := w.view(obj.GetUID()), view{obj}
	w.views[obj.GetUID()] = is
	if is.String() != was.String() { // a write of the status alone stores no outcome
		w.lastRecorded[resumption{process, obj.GetUID()}] = w.moment()
	}
	w.writes++
	for i := range w.plan.Handlers {
		id := w.plan.Handlers[i].ID
		var answer retry.Answer
		if err := json.Unmarshal([]byte(obj.GetAnnotations()[retry.AnswerKey(progress.DefaultPrefix, id)]), &answer); err == nil && answer.Outcome != retry.Retrying {
			w.answered[ask{obj.GetUID(), id, answer.Request}] = true
		}
	}
	w.notef("(%d) has written %s in version %s: %s", process, obj.GetName(), obj.GetResourceVersion(), is)
	if is.text() != was.text() && is.text() != "" && !is.reverted() {
		state, _ := is.baseline()
		h := w.historyOf(obj.GetUID())
		h.baselines = append(h.baselines, baseline{w.moment(), state})
	}
	if is.isReleased() && was.hasFinalizer() {
		w.checkRelease(obj)
	}
	return nil
}

func (w *world) view(uid types.UID) view { return w.views[uid] }

func (v view) annotations() map[string]string {
	if v.obj == nil {
		return nil
	}
	return v.obj.GetAnnotations()
}

func (v view) hasFinalizer() bool {
	return v.obj != nil && slices.Contains(v.obj.GetFinalizers(), kopf.DefaultFinalizer)
}

func (v view) isReleased() bool {
	return v.obj != nil && v.obj.GetDeletionTimestamp() != nil && !v.hasFinalizer()
}

// record returns the stored record of a handler.
func (v view) record(id string) (progress.Record, bool) {
	if v.obj == nil {
		return progress.Record{}, false
	}
	record, err := progress.Smart().Fetch(v.obj, id)
	if record == nil || err != nil {
		return progress.Record{}, false
	}
	return *record, true
}

const (
	baselineKey  = progress.DefaultPrefix + "/last-handled-configuration"
	stampPrefix  = progress.DefaultPrefix + "/state-of-"
	answerPrefix = progress.DefaultPrefix + "/retried." // of answers to requests
)

func (v view) text() string { return strings.TrimSpace(v.annotations()[baselineKey]) }

// baseline returns the stored last-handled state.
func (v view) baseline() (State, bool) {
	var essence map[string]any
	if v.text() == "" || json.Unmarshal([]byte(v.text()), &essence) != nil {
		return State{}, false
	}
	return stateOf(essence), true
}

// reverted reports whether the baseline belongs to a reverted update that is not handled yet.
func (v view) reverted() bool {
	var pin struct {
		Turned bool `json:"turned"`
	}
	return json.Unmarshal([]byte(v.annotations()[pinKey]), &pin) == nil && pin.Turned
}

const pinKey = progress.DefaultPrefix + "/pinned-configuration"

// leftovers returns the annotations that a settled object must not have.
func (v view) leftovers() []string {
	var keys []string
	for key := range v.annotations() {
		if key != noteKey && key != baselineKey && !(strings.HasPrefix(key, stampPrefix) || strings.HasPrefix(key, answerPrefix)) && !strings.HasPrefix(key, ownPrefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// hasOnlyExpired reports whether only records of expired delays remain. The engine does not read such records.
func (v view) hasOnlyExpired() bool {
	return !slices.ContainsFunc(v.leftovers(), func(key string) bool {
		record, stored := v.record(strings.TrimPrefix(key, progress.DefaultPrefix+"/"))
		return !stored || record.Finished() || record.Delayed.IsZero() || record.Delayed.After(time.Now())
	})
}

// String returns a short form for the log.
func (v view) String() string {
	state, known := v.baseline()
	text := "no baseline"
	if known {
		text = "baseline " + state.String()
	}
	for _, key := range v.leftovers() {
		text += ", " + key + ": " + v.annotations()[key]
	}
	return text
}
