package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// output is the output format.
type output string

func (o *output) bind(fs *pflag.FlagSet) {
	fs.StringVarP((*string)(o), "output", "o", "table", "output format: table, json or yaml")
}

func (o output) check() error {
	switch o {
	case "table", "json", "yaml":
		return nil
	}
	return fmt.Errorf("--output is %q: use table, json or yaml", string(o))
}

// A peeringOutput is a peering object in JSON or YAML.
type peeringOutput struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Namespace  string       `json:"namespace,omitempty"`
	Name       string       `json:"name"`
	Peers      []peerOutput `json:"peers"`
}

type peerOutput struct {
	Identity string `json:"identity"`
	State    string `json:"state"` // live, dead, or unreadable
	Priority *int   `json:"priority,omitempty"`
	Lifetime *int64 `json:"lifetimeSeconds,omitempty"`
	LastSeen string `json:"lastSeen,omitempty"`
	Message  string `json:"message,omitempty"`
}

func (o output) print(w io.Writer, objects []peering.Object, now time.Time) error {
	all := make([]peeringOutput, 0, len(objects))
	for _, object := range objects {
		all = append(all, newPeeringOutput(object, now))
	}
	return o.write(w, all, func() [][]string { return peerRows(all) })
}

// write prints a value as JSON or YAML, or its rows as a table.
func (o output) write(w io.Writer, value any, rows func() [][]string) error {
	switch o {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(value)
	case "yaml":
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, cells := range rows() {
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) // Flush returns the errors of writes
	}
	return t.Flush()
}

func newPeeringOutput(object peering.Object, now time.Time) peeringOutput {
	s := peeringOutput{
		APIVersion: object.Group + "/v1", Kind: object.Kind, Namespace: object.Namespace, Name: object.Name, Peers: []peerOutput{},
	}
	for _, p := range object.Peers {
		seconds := int64(p.Lifetime / time.Second)
		one := peerOutput{Identity: p.Identity, State: "live", Priority: &p.Priority, Lifetime: &seconds, Message: p.Message}
		if p.Expired(now) {
			one.State = "dead"
		}
		if !p.LastSeen.IsZero() {
			one.LastSeen = p.LastSeen.UTC().Format(time.RFC3339)
		}
		s.Peers = append(s.Peers, one)
	}
	for _, u := range object.Unreadable {
		s.Peers = append(s.Peers, peerOutput{Identity: u.Identity, State: "unreadable", Message: u.Err.Error()})
	}
	return s
}

func peerRows(all []peeringOutput) [][]string {
	rows := [][]string{{"PEERING", "NAMESPACE", "IDENTITY", "PRIORITY", "LIFETIME", "LAST SEEN", "STATE", "MESSAGE"}}
	for _, object := range all {
		name := strings.ToLower(object.Kind) + "." + strings.TrimSuffix(object.APIVersion, "/v1") + "/" + object.Name
		if len(object.Peers) == 0 {
			rows = append(rows, []string{name, object.Namespace, "(none)"})
		}
		for _, p := range object.Peers {
			priority, lifetime := "", ""
			if p.Priority != nil {
				priority, lifetime = fmt.Sprint(*p.Priority), fmt.Sprintf("%ds", *p.Lifetime)
			}
			rows = append(rows, []string{name, object.Namespace, p.Identity, priority, lifetime, p.LastSeen, p.State, p.Message})
		}
	}
	return rows
}

// oneLine replaces line breaks with spaces and escapes control characters, because messages on objects can contain any text.
func oneLine(text string) string {
	var line strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		line.WriteString(quoted[1 : len(quoted)-1])
	}
	return line.String()
}
