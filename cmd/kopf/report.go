package main

import (
	"cmp"
	_ "embed" // for the template
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// maxReported is the maximum number of objects in a report. JSON has no limit.
const maxReported = 500

//go:embed report.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{"line": oneLine, "letter": letterOf, "color": colorOf, "stamp": stamp}).Parse(reportText))

func newReport() *cobra.Command {
	var which selection
	var look inspector
	var form string
	var from operatorEndpoint
	cmd := &cobra.Command{
		Use:   "report KIND [NAME...]",
		Short: "Write a report of the handlers of objects as one file",
		Long: `Write a table of handlers and objects, with the state of each handler as a color and a letter, and the errors of handlers. With one name, the
report also has a time line of the handlers of this object. If the operator stores a history (progress.WithHistory), the time line contains finished
handlers. A record contains the last and the next attempt, but no earlier attempts.

With --operator, the states come from the status page of the running operator. The report then also contains progress that is not stored on the object, and
the time line contains the last attempts of each handler.

The file needs no other files and no scripts. It contains names of objects, ids of handlers, and the errors that handlers have returned. It contains
no fields of objects and no other annotations. It contains only objects with records or an unhandled change. Objects with errors come first. Formats other
than JSON contain at most 500 objects.`,
		Example: `  # A web page:
  kopf report databases.example.com -A > report.html
  # A time line of one object, for an issue on GitHub:
  kopf report databases.example.com orders -n shop -o mermaid
  # With all attempts since the operator has started:
  kopf report databases.example.com orders -n shop --operator https://localhost:8443 --insecure-skip-tls-verify \
    --token "$(kubectl -n shop-system create token shop-status-reader)"
  # For scripts:
  kopf report databases.example.com -A -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"html", "svg", "mermaid", "json"}, form) {
				return fmt.Errorf("--output is %q: use html, svg, mermaid or json", form)
			}
			if slices.Contains(look.handlers, "") {
				return errors.New("--handler is empty: set the id of a handler, or remove the flag")
			}
			if err := errors.Join(look.check(), from.check()); err != nil {
				return err
			}
			look.now = time.Now()
			r := newReportData(args[0], look.now)
			if err := from.report(cmd.Context(), r, &look, &which, args); err != nil {
				return err
			}
			return r.write(cmd.OutOrStdout(), form)
		},
	}
	which.bind(cmd.Flags())
	look.bind(cmd.Flags())
	from.bind(cmd.Flags())
	cmd.Flags().StringVarP(&form, "output", "o", "html", "output format: html, svg, mermaid or json")
	cmd.Flags().StringArrayVar(&look.handlers, "handler", nil, "id of a handler of the operator; repeatable. The report then contains only these handlers and their sub-handlers")
	return cmd
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// reportStates are the states of handlers in a report, in the order in which reports sort objects. A handler is retrying if it
// is unfinished and its last attempt has failed.
var reportStates = []struct{ name, letter, color string }{
	{"failed", "F", "#d64545"},
	{"retrying", "R", "#e08b2f"},
	{"due", "D", "#e3c93c"},
	{"waiting", "W", "#5b9bd5"},
	{"succeeded", "S", "#5cb370"},
}

func rankOf(state string) int {
	for i, s := range reportStates {
		if s.name == state {
			return i
		}
	}
	return len(reportStates)
}

func letterOf(state string) string {
	if i := rankOf(state); i < len(reportStates) {
		return reportStates[i].letter
	}
	return ""
}

func colorOf(state string) string {
	if i := rankOf(state); i < len(reportStates) {
		return reportStates[i].color
	}
	return "#eeeeee"
}

// reportData is the content of a report.
type reportData struct {
	Kind     string            `json:"kind"`
	Time     time.Time         `json:"time"`
	Total    int               `json:"total"` // number of selected objects, including objects without records
	Handlers []string          `json:"handlers"`
	Counts   []reportCount     `json:"counts"`
	Objects  []*reportObject   `json:"objects"` // objects with errors first
	Failing  []reportFailure   `json:"failing"`
	TimeLine []reportTimeEntry `json:"timeLine,omitempty"`
	Attempts []explain.Attempt `json:"attempts,omitempty"` // attempts for one object, from the operator
	Notes    []string          `json:"notes,omitempty"`
}

type reportCount struct {
	State  string `json:"state"`
	Number int    `json:"number"`
}

type reportObject struct {
	Name     string                   `json:"name"` // namespace and name
	Cause    string                   `json:"cause"`
	Handlers map[string]handlerRecord `json:"handlers"`
}

type reportFailure struct {
	Object string `json:"object"`
	handlerRecord
}

// A reportTimeEntry is the progress of a handler for one cause. Times are absent if the record has none.
type reportTimeEntry struct {
	Handler   string     `json:"handler"`
	Cause     string     `json:"cause,omitempty"`
	State     string     `json:"state"`
	Attempts  int        `json:"attempts"`
	Started   time.Time  `json:"started"`
	Attempted *time.Time `json:"attempted,omitempty"` // end of the last attempt
	Delayed   *time.Time `json:"delayed,omitempty"`   // next attempt
	Stopped   *time.Time `json:"stopped,omitempty"`
	Message   string     `json:"message,omitempty"`
}

func newReportData(kind string, now time.Time) *reportData {
	return &reportData{Kind: kind, Time: now.UTC().Truncate(time.Second), Handlers: []string{}, Objects: []*reportObject{}, Failing: []reportFailure{}}
}

// add adds an object to the report, with the progress that is stored on the object.
func (r *reportData) add(look *inspector, obj *unstructured.Unstructured, timeLine bool) {
	r.Total++
	found := look.inspect(obj)
	object := &reportObject{Name: strings.TrimPrefix(found.Namespace+"/"+found.Name, "/"), Cause: found.Cause, Handlers: map[string]handlerRecord{}}
	for _, h := range found.Handlers {
		r.addHandler(object, h, timeLine)
	}
	if timeLine {
		r.addHistory(look, obj)
	}
	if len(object.Handlers) > 0 || object.Cause != "none" {
		r.Objects = append(r.Objects, object)
	}
}

// addHandler adds a handler to the row of its object, and to the time line.
func (r *reportData) addHandler(object *reportObject, h handlerRecord, timeLine bool) {
	if h.unfinished() && h.Message != "" {
		h.State = "retrying"
	}
	if h.State == "succeeded" {
		h.Message = ""
	}
	object.Handlers[h.ID] = h
	if timeLine {
		r.addTime(h)
	}
}

// addHistory adds the finished handlers of earlier cycles to the time line, and sorts it.
func (r *reportData) addHistory(look *inspector, obj *unstructured.Unstructured) {
	history, err := progress.History(obj)
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	for _, entry := range history {
		r.addTime(look.state(entry.Handler, entry.Record))
	}
	slices.SortStableFunc(r.TimeLine, func(a, b reportTimeEntry) int { return a.Started.Compare(b.Started) })
}

func (r *reportData) addTime(h handlerRecord) {
	optional := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return new(t.UTC())
	}
	record := h.record
	if record.Started.IsZero() {
		r.Notes = append(r.Notes, fmt.Sprintf("the record of the handler %q has no start", h.ID))
		return
	}
	r.TimeLine = append(r.TimeLine, reportTimeEntry{
		Handler: h.ID, Cause: h.Cause, State: h.State, Attempts: h.Attempts, Started: record.Started.UTC(), Attempted: optional(record.Attempted),
		Delayed: optional(record.Delayed), Stopped: optional(record.Stopped), Message: h.Message,
	})
}

// finish sorts the objects, and computes the handlers, the counts and the failures of the report.
func (r *reportData) finish() {
	rank := func(o *reportObject) int {
		best := rankOf("")
		for _, h := range o.Handlers {
			best = min(best, rankOf(h.State))
		}
		return best
	}
	slices.SortFunc(r.Objects, func(a, b *reportObject) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.Name, b.Name)) })
	handlers, counts := map[string]bool{}, map[string]int{}
	for _, object := range r.Objects {
		for _, id := range slices.Sorted(maps.Keys(object.Handlers)) {
			h := object.Handlers[id]
			handlers[id] = true
			counts[h.State]++
			if h.State == "failed" || h.State == "retrying" {
				r.Failing = append(r.Failing, reportFailure{object.Name, h})
			}
		}
	}
	r.Handlers = slices.Sorted(maps.Keys(handlers))
	for _, state := range reportStates {
		r.Counts = append(r.Counts, reportCount{state.name, counts[state.name]})
	}
}

func (r *reportData) write(w io.Writer, form string) error {
	r.finish()
	if form == "json" {
		return output("json").write(w, r, nil)
	}
	if more := len(r.Objects) - maxReported; more > 0 {
		r.Objects = r.Objects[:maxReported]
		r.Notes = append(r.Notes, fmt.Sprintf("%d more objects are not shown", more))
	}
	if len(r.Failing) > maxReported {
		r.Failing = r.Failing[:maxReported]
	}
	if form == "mermaid" {
		_, err := io.WriteString(w, r.mermaid())
		return err
	}
	return reportTemplate.ExecuteTemplate(w, form, r)
}

// Title returns the heading of the report.
func (r *reportData) Title() string {
	return fmt.Sprintf("Handlers of %s at %s: %d of %d objects with records or changes", r.Kind, r.Time.Format(time.RFC3339), len(r.Objects), r.Total)
}

// span returns the first and the last time of the time line.
func (r *reportData) span() (first, last time.Time) {
	first, last = r.TimeLine[0].Started, r.TimeLine[0].Started // addHistory has sorted the entries
	for _, e := range r.TimeLine {
		for _, t := range []*time.Time{new(e.end(r.Time)), e.Delayed} {
			if t != nil && t.After(last) {
				last = *t
			}
		}
	}
	return first, last
}

// end returns the end of the attempts so far: the end of the handler, the end of its last attempt, or now.
func (e reportTimeEntry) end(now time.Time) time.Time {
	end := now
	switch {
	case e.Stopped != nil:
		end = *e.Stopped
	case e.Attempted != nil:
		end = *e.Attempted
	}
	if end.Before(e.Started) {
		return e.Started
	}
	return end
}

func (e reportTimeEntry) hint() string {
	text := fmt.Sprintf("%s %s, attempts %d, started %s", e.Handler, e.State, e.Attempts, e.Started.Format(time.RFC3339))
	if e.Stopped != nil {
		text += ", stopped " + e.Stopped.Format(time.RFC3339)
	} else if e.Delayed != nil {
		text += ", next attempt " + e.Delayed.Format(time.RFC3339)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}
