package children

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// A State is the state of a child of a [Set].
type State string

// The states of children. Ready, InProgress, Failed and Deleting come from the library kstatus, which Flux and kpt use, too. If kstatus
// doesn't know a kind, a child is ready unless its status or its conditions show otherwise.
const (
	Ready      State = "Ready"      // the status shows that the child has reached its desired state
	InProgress State = "InProgress" // the child hasn't reached its desired state yet
	Failed     State = "Failed"     // the child can't reach the desired state, or a request for it has failed
	Waiting    State = "Waiting"    // ApplyInOrder hasn't applied the child, because an earlier one isn't ready
	Deleting   State = "Deleting"   // the child is being deleted
	Deleted    State = "Deleted"    // the child is deleted, or released because it has other owners
)

const (
	operationDeleted  controllerutil.OperationResult = "deleted"
	operationReleased controllerutil.OperationResult = "released" // the object has other owners
)

// maxListed is the maximum number of children in the message of a condition.
const maxListed = 5

// A SetChild is the state of one child after [Set.Apply].
type SetChild struct {
	Result         // for deleted children, the object before the deletion and the operation "deleted"
	Name    string // kind, namespace and name
	State   State
	Message string // reason for the state; can be empty
	Err     error  // error of the request for the child, or nil
}

func (c *SetChild) fail(err error) {
	c.State, c.Message = Failed, err.Error()
	c.Err = fmt.Errorf("children: %s: %w", c.Name, rbac.Explain(err))
	c.Operation = controllerutil.OperationResultNone
}

// A SetResult is the result of [Set.Apply].
type SetResult struct {
	Children []SetChild // children of the list, in order, without nil
	Pruned   []SetChild // children that existed before the call and aren't in the list

	err error // error that isn't about a single child
}

// Ready reports whether all children of the list are [Ready] and all others are [Deleted].
func (r SetResult) Ready() bool { return r.err == nil && len(r.unfinished()) == 0 }

// Condition returns a condition that summarizes the states of the children. It is true with the reason Ready if all children are ready.
// Otherwise it is false with the reason Failed, InProgress or Deleting, and the message names up to five children.
func (r SetResult) Condition(conditionType string) metav1.Condition {
	condition := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse}
	unfinished := r.unfinished()
	has := func(state State) bool {
		return slices.ContainsFunc(unfinished, func(c SetChild) bool { return c.State == state })
	}
	switch {
	case r.err != nil || has(Failed):
		condition.Reason = string(Failed)
	case has(InProgress) || has(Waiting):
		condition.Reason = string(InProgress)
	case len(unfinished) > 0:
		condition.Reason = string(Deleting)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, string(Ready)
		condition.Message = fmt.Sprintf("%d of %d children are ready", len(r.Children), len(r.Children))
		return condition
	}
	var parts []string
	if r.err != nil {
		parts = append(parts, r.err.Error())
	}
	for i, c := range unfinished {
		if i == maxListed {
			parts = append(parts, fmt.Sprintf("and %d more", len(unfinished)-i))
			break
		}
		part := c.Name + ": " + string(c.State)
		if c.Message != "" {
			part += " (" + c.Message + ")"
		}
		parts = append(parts, part)
	}
	condition.Message = strings.Join(parts, "; ")
	return condition
}

// unfinished returns the children that are neither ready nor deleted, failed ones first.
func (r SetResult) unfinished() (out []SetChild) {
	for _, c := range slices.Concat(r.Children, r.Pruned) {
		if c.State != Ready && c.State != Deleted {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b SetChild) int { return rank(a) - rank(b) })
	return out
}

func rank(c SetChild) int {
	return slices.Index([]State{Failed, InProgress, Waiting, Deleting}, c.State)
}

func (r SetResult) errors() error {
	errs := []error{r.err}
	for _, c := range slices.Concat(r.Children, r.Pruned) {
		errs = append(errs, c.Err)
	}
	return errors.Join(errs...)
}

// stateOf returns the state of an object according to kstatus.
func stateOf(obj client.Object, gvk schema.GroupVersionKind) (State, string, error) {
	content, err := contentOf(obj)
	if err != nil {
		return Failed, "", err
	}
	u := (&unstructured.Unstructured{Object: content}).DeepCopy()
	u.SetGroupVersionKind(gvk)
	result, err := status.Compute(u)
	if err != nil {
		return Failed, "", fmt.Errorf("reading the status of the child: %w", err)
	}
	switch result.Status {
	case status.InProgressStatus, status.NotFoundStatus, status.UnknownStatus:
	case status.CurrentStatus:
		return Ready, "", nil
	case status.FailedStatus:
		return Failed, result.Message, nil
	case status.TerminatingStatus:
		return Deleting, result.Message, nil
	}
	return InProgress, result.Message, nil
}
