package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is what the ConfigMap contains about the rollout of one kind, as JSON. The keys of the ConfigMap are the kinds, such as
// "databases.example.com".
type State struct {
	// Revisions are the revisions that the objects are taken to, by handler.
	Revisions string `json:"revisions"`
	// Halted says why the rollout begins with no more objects. It is nil unless it is halted.
	Halted *Stop `json:"halted,omitempty"`
	// Resume asks the operator to resume the rollout. The operator then removes Resume and Halted, and sets Resumed.
	Resume bool `json:"resume,omitempty"`
	// Resumed is when the rollout was resumed last. Objects that had failed before no longer count as failures.
	Resumed *time.Time `json:"resumed,omitempty"`
	// Progress has the numbers of objects, by shard. Without sharding, the name is empty. The operator writes it at most every 10 seconds.
	Progress map[string]Progress `json:"progress,omitempty"`
}

// A Stop says who has halted a rollout, and why.
type Stop struct {
	At time.Time `json:"at"`
	// By is "rollout" if the rollout has halted itself.
	By      string `json:"by"`
	Message string `json:"message"`
}

// Progress is how many objects have which state. Objects that were created or changed in the meantime, that have opted out, or that are
// paused are not among them.
type Progress struct {
	// Begun is when the rollout has begun. Objects that were done before don't count.
	Begun   time.Time `json:"begun,omitzero"`
	Total   int       `json:"total"`
	Waiting int       `json:"waiting"`
	Running int       `json:"running"`
	Done    int       `json:"done"`
	Failed  int       `json:"failed"`
	At      time.Time `json:"at"`
}

// Decode returns the states in a ConfigMap, by kind.
func Decode(from *corev1.ConfigMap) (map[string]State, error) {
	states := make(map[string]State, len(from.Data))
	var errs []error
	for kind, text := range from.Data {
		var one State
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			errs = append(errs, fmt.Errorf("the ConfigMap %s/%s: the value of %q is no state of a rollout: remove it or correct it: %w", from.Namespace, from.Name, kind, err))
			continue
		}
		states[kind] = one
	}
	return states, errors.Join(errs...)
}

// Load reads the states of the rollouts in a ConfigMap. There are none if it doesn't exist.
func Load(ctx context.Context, c client.Reader, configMap client.ObjectKey) (map[string]State, error) {
	var found corev1.ConfigMap
	if err := c.Get(ctx, configMap, &found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return Decode(&found)
}

// Halt halts the rollout of a kind. The operator begins with no more objects until someone resumes the rollout, also after a restart.
func Halt(ctx context.Context, c client.Client, configMap client.ObjectKey, kind, by, message string) error {
	return Change(ctx, c, configMap, kind, func(s *State) error {
		if len(s.Progress) > 0 && !s.isUnfinished() {
			return fmt.Errorf("the rollout of %s is complete", kind)
		}
		if s.Revisions == "" && len(s.Progress) == 0 { // the rollout of a change of the schema has no revisions
			return fmt.Errorf("there is no rollout of %s", kind)
		}
		s.Halted, s.Resume = &Stop{At: time.Now().UTC().Truncate(time.Second), By: by, Message: message}, false
		return nil
	})
}

// isUnfinished reports whether objects of any shard are waiting or unfinished.
func (s *State) isUnfinished() bool {
	for _, p := range s.Progress {
		if p.Waiting+p.Running > 0 {
			return true
		}
	}
	return false
}

// Resume asks the operator to resume the rollout of a kind. It returns an error if the rollout isn't halted.
func Resume(ctx context.Context, c client.Client, configMap client.ObjectKey, kind string) error {
	return Change(ctx, c, configMap, kind, func(s *State) error {
		if s.Halted == nil {
			return fmt.Errorf("the rollout of %s is not halted", kind)
		}
		s.Resume = true
		return nil
	})
}

// Change changes the state of a kind's rollout. It creates the ConfigMap if necessary, and repeats the change after a conflict.
func Change(ctx context.Context, c client.Client, configMap client.ObjectKey, kind string, change func(*State) error) error {
	retriable := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultBackoff, retriable, func() error {
		found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: configMap.Namespace, Name: configMap.Name}}
		err := c.Get(ctx, configMap, found)
		isNew := apierrors.IsNotFound(err)
		if err != nil && !isNew {
			return err
		}
		var state State
		if text, exists := found.Data[kind]; exists {
			if err := json.Unmarshal([]byte(text), &state); err != nil {
				return fmt.Errorf("the ConfigMap %s: the value of %q is no state of a rollout: remove it or correct it: %w", configMap, kind, err)
			}
		}
		if err := change(&state); err != nil {
			return err
		}
		text, err := json.Marshal(state)
		if err != nil {
			return err
		}
		if found.Data[kind] == string(text) {
			return nil
		}
		if found.Data == nil {
			found.Data = map[string]string{}
		}
		found.Data[kind] = string(text)
		if isNew {
			return c.Create(ctx, found)
		}
		return c.Update(ctx, found)
	})
}
