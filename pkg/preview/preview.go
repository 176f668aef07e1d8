package preview

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Report says what an operator would do with all objects.
type Report struct {
	Kinds []Kind `json:"kinds"`
	// Notes say what the report doesn't cover.
	Notes []string `json:"notes,omitempty"`
}

// A Kind has the objects of one kind, in groups for which the operator would do the same.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Objects is the number of objects, including those with problems.
	Objects int     `json:"objects"`
	Groups  []Group `json:"groups,omitempty"`
	// Problems say why some or all objects are missing in the groups, for example because they don't decode. There are at most a hundred.
	Problems []string `json:"problems,omitempty"`
}

// A Group are objects for which the operator would do the same.
type Group struct {
	// Cause is what the operator would detect: create, update, delete, resume, revision, or none.
	Cause string `json:"cause"`
	// Handlers are the ids of the handlers that it would call for the cause, now or after a delay.
	Handlers []string `json:"handlers,omitempty"`
	// Changed are the paths that differ from the last-handled configuration, if Cause is update. After the first 1000 groups of a kind, it is
	// only "…".
	Changed []string `json:"changed,omitempty"`
	// Finalizer is what the operator would do with its finalizer: add, remove, or nothing if it is empty.
	Finalizer string `json:"finalizer,omitempty"`
	// Starts are the ids of the daemons and timers that it would start.
	Starts []string `json:"starts,omitempty"`
	// Paused is true if the annotation kopf-runtime.dev/paused holds the objects.
	Paused bool `json:"paused,omitempty"`
	// Objects is the number of objects, and Examples are the names of at most three.
	Objects  int      `json:"objects"`
	Examples []string `json:"examples,omitempty"`
}

// isChange reports whether the operator would change something for the group's objects that isn't due to a new process alone.
func (g Group) isChange() bool {
	return g.Finalizer != "" || !g.Paused && len(g.Handlers) > 0 && g.Cause != "resume"
}

// Changes returns the number of objects for which the operator would call handlers other than those for resumes, or add or remove the
// finalizer. After an upgrade without effects, it is zero.
func (r *Report) Changes() (n int) {
	for _, kind := range r.Kinds {
		for _, group := range kind.Groups {
			if group.isChange() {
				n += group.Objects
			}
		}
	}
	return n
}

// Problems returns the number of problems of all kinds.
func (r *Report) Problems() (n int) {
	for _, kind := range r.Kinds {
		n += len(kind.Problems)
	}
	return n
}

// WriteText writes the report as a table, with the largest groups first.
func (r *Report) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, err := fmt.Fprintln(table, "KIND\tOBJECTS\tCAUSE\tHANDLERS\tWHY\tEXAMPLES")
	for _, kind := range r.Kinds {
		groups := slices.Clone(kind.Groups)
		slices.SortStableFunc(groups, func(a, b Group) int { return b.Objects - a.Objects })
		for _, g := range groups {
			if err == nil {
				_, err = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", kind.Kind, g.Objects, g.Cause, orDash(g.Handlers), g.why(), orDash(g.Examples))
			}
		}
	}
	if err == nil {
		err = table.Flush()
	}
	for _, kind := range r.Kinds {
		for _, problem := range kind.Problems {
			if err == nil {
				_, err = fmt.Fprintf(w, "%s: %s\n", kind.Kind, problem)
			}
		}
	}
	for _, note := range r.Notes {
		if err == nil {
			_, err = fmt.Fprintln(w, note)
		}
	}
	return err
}

func (g Group) why() string {
	var parts []string
	if len(g.Changed) > 0 {
		parts = append(parts, "changed: "+strings.Join(g.Changed, ", "))
	}
	if g.Finalizer != "" {
		parts = append(parts, "the finalizer: "+g.Finalizer)
	}
	if len(g.Starts) > 0 {
		parts = append(parts, "starts: "+strings.Join(g.Starts, ", "))
	}
	if g.Paused {
		parts = append(parts, "paused by the annotation")
	}
	return orDash(parts)
}

func orDash(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}
