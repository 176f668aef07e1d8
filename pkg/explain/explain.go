package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Explanation describes what an operator does with one object. Its JSON form is stable within a minor version.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Source is where the explanation comes from.
	Source Source    `json:"source"`
	Time   time.Time `json:"time"`

	// Cause is the cause that the operator detects: create, update, delete or resume. Other values:
	//
	//   - "noop": nothing has changed.
	//   - "free": the object is being deleted without the operator's finalizer.
	//   - "gone": the object doesn't exist.
	//   - "none": the kind has no cause handlers.
	//   - "unknown": the operator hasn't detected a cause, for example because it doesn't handle the object's namespace.
	Cause string `json:"cause"`
	// Changed lists the paths of the fields that have changed since the object was handled.
	Changed []string `json:"changed,omitempty"`
	// Waits lists the reasons why all of the object's handlers wait, such as a pause.
	Waits []string `json:"waits,omitempty"`
	// Running is true if the operator is reconciling the object right now.
	Running bool `json:"running,omitempty"`
	// Deleting is true if the object has a deletion timestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Finalizer is true if the object has the operator's finalizer.
	Finalizer bool `json:"finalizer,omitempty"`
	// OtherFinalizers are the finalizers of other controllers. They keep the API server from removing the object.
	OtherFinalizers []string  `json:"otherFinalizers,omitempty"`
	Handlers        []Handler `json:"handlers,omitempty"`
	// Attempts are the last attempts of handlers in this process, oldest first. They are recorded only with kopf.WithStatusPage.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Events are the last Events about the object. Only the command "kopf why" reads them.
	Events []Event `json:"events,omitempty"`
	// Unknown lists what the explanation couldn't find out.
	Unknown []string `json:"unknown,omitempty"`
}

// Source says where an explanation comes from.
type Source string

// The sources of explanations.
const (
	// FromOperator means that the operator that handles the object explained it, knowing all handlers and their filters.
	FromOperator Source = "operator"
	// FromRecords means that the explanation contains only what the operator has stored on the object.
	FromRecords Source = "records"
)

// Handler describes one handler for the object.
type Handler struct {
	ID string `json:"id"`
	// Kind is "cause", "event", "event-about", "reconcile", "daemon", "timer", "index" or "sub".
	Kind  string `json:"kind,omitempty"`
	State State  `json:"state"`
	// Why explains the state.
	Why string `json:"why,omitempty"`
	// Attempts is the number of attempts so far. For a cause handler, only attempts for the cause count.
	Attempts int `json:"attempts,omitempty"`
	// Due is the time of the next attempt, if it is in the future.
	Due *time.Time `json:"due,omitempty"`
	// Started is when the handler was selected for the cause. Ended is when it succeeded or failed permanently.
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	// LastError is the error of the last attempt.
	LastError string `json:"lastError,omitempty"`
}

// Attempt is one call of a handler for the object.
type Attempt struct {
	Handler string `json:"handler"`
	// Reason is the reason of the request, such as "update".
	Reason string `json:"reason,omitempty"`
	// Number is the number of the attempt, starting with 1.
	Number  int       `json:"number"`
	Started time.Time `json:"started"`
	// Ended is zero while the handler is running.
	Ended time.Time `json:"ended,omitzero"`
	// State is Active, Succeeded, Failed, Retrying, Waiting (for sub-handlers) or Stopped (interrupted).
	State State `json:"state"`
	// Error is the error of the attempt, at most about 256 bytes.
	Error string `json:"error,omitempty"`
}

// Event is a Kubernetes Event about the object.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// State is the state of a handler for an object.
type State string

// The states of handlers.
const (
	Due         State = "due"          // the handler is called in the next reconcile
	Waiting     State = "waiting"      // the next attempt, or the next run of a timer, is later
	Blocked     State = "blocked"      // a different handler must succeed first
	Succeeded   State = "succeeded"    // the handler has succeeded for the cause
	Failed      State = "failed"       // the handler has failed permanently
	Filtered    State = "filtered"     // the handler's filters don't match the object
	NotSelected State = "not selected" // the handler isn't for the cause
	Active      State = "active"       // the handler is called for later events or changes, or is running
	Paused      State = "paused"       // the operator is paused
	Ended       State = "ended"        // the daemon or timer has ended and won't start again
	Stopped     State = "stopped"      // the daemon or timer isn't running
	Retrying    State = "retrying"     // the attempt has failed and will be retried
)

// Write writes the explanation as text: the object first, then a table of the handlers.
func (e *Explanation) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", e.Kind, e.ObjectName(), e.Summary())
	for _, line := range e.notes() {
		fmt.Fprintf(&b, "  %s\n", strings.Join(strings.Fields(line), " "))
	}
	if len(e.Handlers) > 0 {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "  HANDLER\tKIND\tSTATE\tATTEMPTS\tWHY") // Flush returns the errors of writes
		for _, h := range e.Handlers {
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%d\t%s\n", h.ID, dash(h.Kind), h.State, h.Attempts, dash(h.Explain(e.Time)))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, event := range e.Events {
		fmt.Fprintf(&b, "  Event %s ago: %s %s: %s\n", e.Time.Sub(event.Time).Round(time.Second), event.Type, event.Reason, strings.Join(strings.Fields(event.Message), " "))
	}
	for _, line := range e.Unknown {
		fmt.Fprintf(&b, "  unknown: %s\n", strings.Join(strings.Fields(line), " "))
	}
	_, err := io.WriteString(w, printable(b.String()))
	return err
}

// printable escapes control characters, which names, errors and Events can contain.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\n' {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ObjectName returns the namespace and the name of the object, separated by a slash, or only the name if the object is cluster-scoped.
func (e *Explanation) ObjectName() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

var causes = map[string]string{
	"create":  "create: no handler has finished for the object yet",
	"update":  "update: the object has changed since it was handled",
	"delete":  "delete: the object is being deleted",
	"resume":  "resume: the operator sees the object for the first time since it has started",
	"noop":    "nothing has changed since the object was handled",
	"free":    "the object is being deleted, and the operator does not need it: it has removed its finalizer, or never added one",
	"gone":    "the object does not exist",
	"none":    "the operator has no handlers for changes of this kind",
	"unknown": "the cause is unknown",
}

// Summary describes the cause in one line.
func (e *Explanation) Summary() string {
	text, found := causes[e.Cause]
	if !found {
		text = e.Cause
	}
	if len(e.Changed) > 0 {
		text += " (" + strings.Join(e.Changed, ", ") + ")"
	}
	return text
}

func (e *Explanation) notes() (lines []string) {
	for _, wait := range e.Waits {
		lines = append(lines, "waits: "+wait)
	}
	if e.Running {
		lines = append(lines, "the operator is reconciling the object now")
	}
	for _, attempt := range e.Attempts {
		if attempt.State == Active && e.Running {
			lines = append(lines, fmt.Sprintf("attempt %d of the handler %q has been running for %s", attempt.Number, attempt.Handler, e.Time.Sub(attempt.Started).Round(time.Second)))
		}
	}
	if e.Deleting && len(e.OtherFinalizers) > 0 {
		lines = append(lines, "the object is held by the finalizers of other controllers: "+strings.Join(e.OtherFinalizers, ", "))
	}
	return lines
}

// Explain returns the reason for the state, the time until the handler is due, and the last error.
func (h Handler) Explain(now time.Time) string {
	parts := []string{h.Why}
	if h.Due != nil {
		parts = append(parts, "next in "+max(h.Due.Sub(now), 0).Round(time.Second).String())
	}
	if h.LastError != "" {
		parts = append(parts, "last error: "+h.LastError)
	}
	text := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
	return strings.Join(strings.Fields(text), " ")
}
