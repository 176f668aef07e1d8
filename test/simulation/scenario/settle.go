package scenario

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The operator must become quiet within the first time and stay quiet for the second time. Both times are in ticks.
const (
	settleWithin = 3000
	restFor      = 60
)

// settleAtLeast covers the delays of client-go, which are independent of ticks.
const settleAtLeast = 2 * time.Minute

// settle waits until the operator is quiet and records the remaining objects.
func (w *world) settle(ctx context.Context, rest time.Duration) error {
	deadline := time.Now().Add(max(settleWithin*w.Tick, settleAtLeast))
	restless, before := time.Now(), -1
	for pause(ctx, 5*w.Tick) {
		problem, err := w.unsettled(ctx)
		if err != nil {
			return err
		}
		now := w.activity()
		if problem != "" || now != before {
			restless, before = time.Now(), now
		}
		switch {
		case time.Since(restless) >= rest:
			return nil
		case time.Now().After(deadline) && problem != "":
			w.violatef(Settles, "%s", problem)
			return nil
		case time.Now().After(deadline):
			w.violatef(Settles, "the operator does not become quiet")
			return nil
		}
	}
	return ctx.Err()
}

// unsettled returns a description of an unsettled object, or an empty string.
func (w *world) unsettled(ctx context.Context) (string, error) {
	w.alive = map[types.UID]*unstructured.Unstructured{}
	var problems []string
	for i := range w.plan.Objects {
		obj, err := w.read(ctx, i)
		if err != nil {
			return "", err
		}
		if obj == nil {
			continue
		}
		w.alive[obj.GetUID()] = obj
		if problem := unsettledReason(obj); problem != "" {
			problems = append(problems, fmt.Sprintf("%s %s", obj.GetName(), problem))
		}
	}
	return strings.Join(problems, "; "), nil
}

// unsettledReason returns the reason why an object is not settled.
func unsettledReason(obj *unstructured.Unstructured) string {
	v := view{obj}
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return "is being deleted: " + v.String()
	case v.text() == "":
		return "has no baseline: " + v.String()
	case strings.Contains(fmt.Sprint(obj.GetAnnotations()), "/retry."):
		return "has an unanswered request"
	case !v.hasOnlyExpired():
		return "has records: " + v.String()
	}
	var then map[string]any
	if err := json.Unmarshal([]byte(v.text()), &then); err != nil {
		return "has an unreadable baseline: " + err.Error()
	}
	now := essence.Builder{Cleaners: []essence.Cleaner{progress.Smart(), progress.AnnotationBaseline("")}}.Build(obj.DeepCopy().Object)
	if !reflect.DeepEqual(then, now) {
		return fmt.Sprintf("has the baseline %v, want its essence %v", then, now)
	}
	return ""
}

// expectResumption records the objects that the next operator process must resume, also in a running cycle.
func (w *world) expectResumption(ctx context.Context) error {
	for i := range w.plan.Objects {
		obj, err := w.read(ctx, i)
		if err != nil {
			return err
		}
		if obj != nil && obj.GetDeletionTimestamp() == nil && (view{obj}).text() != "" {
			w.listed[resumption{w.process, obj.GetUID()}] = true
		}
	}
	return nil
}

// activity counts the actions of the operator.
func (w *world) activity() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls) + w.writes
}
