package python

import (
	"slices"
	"strings"
)

// A state is a state of an object's handlers in which an operator is killed.
type state struct {
	name   string
	parts  []part
	causes []string // the causes that have this state; empty: all
	down   bool     // the change happens while no operator runs
	edited bool     // there is another edit while no operator runs
}

// A part is a handler in a state.
type part struct {
	name    string
	before  []answer // to the operator that is killed; the last one is repeated
	at      phase    // when it is killed
	after   []answer // to the operator that takes over; the last one is repeated. Without answers, it must not call the handler
	fails   bool     // whether the handler finally fails, so it has no result
	backoff float64
	retries int
	subs    []part
}

type phase string

const (
	untouched phase = "untouched"
	waiting   phase = "waiting"
	succeeded phase = "succeeded"
	failed    phase = "failed"
	blocked   phase = "blocked"
)

// takeOverDelay is so long that objects usually have their states before it is over. On a slow machine, handlers have more retries.
const takeOverDelay = 6

// longName makes an id of more than 63 characters.
const longName = "-handler-whose-id-is-so-long-that-its-annotation-needs-a-hash-instead-of-its-end"

var (
	once   = []answer{succeed}
	twice  = []answer{temporary(0.2), succeed}
	waits  = part{name: "second", before: []answer{temporary(takeOverDelay)}, at: waiting, after: once}
	states = []state{
		{name: "waiting", parts: []part{
			{name: "first", before: []answer{temporary(takeOverDelay)}, at: waiting, after: twice},
		}},
		{name: "retried", parts: []part{
			{name: "first", before: []answer{temporary(0.1), temporary(0.1), temporary(takeOverDelay)}, at: waiting, after: twice},
		}},
		{name: "error", parts: []part{
			{name: "first", before: []answer{broken}, at: waiting, after: once, backoff: takeOverDelay},
		}},
		{name: "failed", parts: []part{
			{name: "first", before: []answer{permanent}, at: failed, fails: true}, waits,
		}},
		{name: "succeeded", parts: []part{
			{name: "first", before: once, at: succeeded}, waits,
		}},
		{name: "limit", parts: []part{
			// The attempt in which the operator is killed does not count.
			{name: "first", before: []answer{temporary(0.1), block}, at: blocked, after: []answer{temporary(0.1)}, retries: 2, fails: true},
		}},
		{name: "subs", parts: []part{
			{name: "first", before: once, at: waiting, after: once, subs: []part{
				{name: "one", before: once, at: succeeded},
				{name: "two", before: []answer{permanent}, at: failed, fails: true},
				{name: "three", before: []answer{temporary(takeOverDelay)}, at: waiting, after: once},
			}},
		}},
		{name: "blocked", parts: []part{
			{name: "first", before: []answer{block}, at: blocked, after: twice},
		}},
		{name: "blocked-again", parts: []part{
			{name: "first", before: []answer{temporary(0.1), block}, at: blocked, after: once},
		}},
		{name: "long", parts: []part{
			{name: "first" + longName, before: once, at: succeeded},
			{name: "second" + longName, before: []answer{temporary(takeOverDelay)}, at: waiting, after: once},
			{name: "third", before: once, at: waiting, after: once, subs: []part{
				{name: "one" + longName, before: []answer{temporary(takeOverDelay)}, at: waiting, after: once},
			}},
		}},
		{name: "down", down: true, parts: []part{
			{name: "first", at: untouched, after: once}, {name: "second", at: untouched, after: twice},
		}},
		{name: "edited", edited: true, causes: []string{"create", "update", "field"}, parts: []part{
			{name: "first", before: once, at: succeeded}, waits,
		}},
	}
)

// causes are the decorators. "create-resume" is a handler with both.
var causes = []string{"create", "update", "field", "delete", "resume", "create-resume"}

// A scenario is an object in a state, with handlers of its own.
type scenario struct {
	cause string
	state
}

// name is also the name of the object, and the value of its label.
func (s scenario) name() string { return s.cause + "-" + s.state.name }

func scenarios(keep func(cause string, s state) bool) (all []scenario) {
	for _, cause := range causes {
		for _, one := range states {
			if (len(one.causes) == 0 || slices.Contains(one.causes, cause)) && keep(cause, one) {
				all = append(all, scenario{cause, one})
			}
		}
	}
	return all
}

// reason is the cause that handlers see.
func (s scenario) reason() string {
	switch s.cause {
	case "field":
		return "update"
	case "create-resume":
		return "create"
	default:
		return s.cause
	}
}

// created reports whether the object exists before the change.
func (s scenario) created() bool { return s.reason() != "create" }

const field = "spec.size"

func (s scenario) handlers() (all []handler) {
	for _, one := range s.parts {
		h := handler{ID: s.id(one.name), Causes: strings.Split(s.cause, "-"), Case: s.name(), Backoff: one.backoff, Retries: one.retries}
		if s.cause == "field" {
			h.Field = field
		}
		for _, sub := range one.subs {
			h.Subs = append(h.Subs, sub.name)
		}
		all = append(all, h)
	}
	return all
}

// id is the id of a handler in calls. The part's name comes first, so that long ids differ in what is left of them.
func (s scenario) id(part string) string { return part + "-" + s.name() }

// A handlerPart is a handler or a sub-handler.
type handlerPart struct {
	part
	call   string // the id in calls
	stored string // the id in records and results
}

// all returns the handlers and the sub-handlers.
func (s scenario) all() (parts []handlerPart) {
	for _, one := range s.parts {
		h := handlerPart{one, s.id(one.name), s.id(one.name)}
		if s.cause == "field" {
			h.stored += "/" + field
		}
		parts = append(parts, h)
		for _, sub := range one.subs {
			parts = append(parts, handlerPart{sub, h.call + "/" + sub.name, h.stored + "/" + sub.name})
		}
	}
	return parts
}
