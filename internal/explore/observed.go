package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An ObjectVersion is one state of an object in a run.
type ObjectVersion struct {
	// Name identifies the object, such as "widgets ns/one".
	Name    string
	Content map[string]any
	// Own is true if the operator wrote this version.
	Own bool
	// Deleted is true if the object was deleted. Content is then its last state.
	Deleted bool
}

// OutdatedStatuses describes objects whose status says that the operator has observed an older generation, although only the operator
// itself has changed the object since. Such a status would stay outdated forever. versions are all versions of all objects, in order, until
// the operator is quiet.
func OutdatedStatuses(versions []ObjectVersion) (found []string) {
	type state struct {
		uid         string
		generation  int64
		user        int64            // the generation after the last change by another client
		byOperator  map[string]int64 // the observed generations that the operator has written, by place
		lastContent map[string]any
	}
	states := map[string]*state{}
	for _, version := range versions {
		if version.Deleted {
			delete(states, version.Name)
			continue
		}
		meta, _ := version.Content["metadata"].(map[string]any)
		uid, _ := meta["uid"].(string)
		s := states[version.Name]
		if s == nil || s.uid != uid {
			s = &state{uid: uid, user: generationOf(version.Content), byOperator: map[string]int64{}}
			states[version.Name] = s
		}
		generation, observed := generationOf(version.Content), observedIn(version.Content["status"], "status")
		if generation != s.generation && !version.Own {
			s.user = generation
		}
		for place, number := range observed {
			if before := observedIn(s.lastContent["status"], "status"); before[place] == number {
				continue
			}
			if delete(s.byOperator, place); version.Own {
				s.byOperator[place] = number
			}
		}
		s.generation, s.lastContent = generation, version.Content
	}
	for name, s := range states {
		for place, number := range observedIn(s.lastContent["status"], "status") {
			if own, ok := s.byOperator[place]; ok && own == number && s.user <= number && number < s.generation {
				found = append(found, fmt.Sprintf("%s of %s is %d, but the operator itself has changed the object to generation %d", place, name, number, s.generation))
			}
		}
	}
	slices.Sort(found)
	return found
}

// observedIn returns the observed generations in a status, by place.
func observedIn(value any, place string) map[string]int64 {
	out := map[string]int64{}
	add := func(inner any, at string) {
		maps.Copy(out, observedIn(inner, at))
	}
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			key := fmt.Sprint(i)
			if fields, ok := item.(map[string]any); ok && fields["type"] != nil {
				key = fmt.Sprint(fields["type"])
			}
			add(item, place+"["+key+"]")
		}
	case map[string]any:
		for key, inner := range v {
			if number, ok := inner.(int64); ok && key == observedGeneration {
				out[place+"."+key] = number
			}
			add(inner, strings.Join([]string{place, key}, "."))
		}
	}
	return out
}
