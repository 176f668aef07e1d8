package watchcheck

import "time"

// silentIntervals is the number of intervals before a suspicious watch counts as silent. The suspicious probe is repeated within this
// time.
const silentIntervals = 2

// probeResult is the result of one probe.
type probeResult struct {
	probe probeType
	// reason and err are set if the API server has rejected the probe.
	reason Reason
	err    error
	// unclear is true if the probe has failed for another reason. The result is then ignored.
	unclear bool
	// delivered is true if the stream of the probe has delivered an event.
	delivered bool
}

// watchState is the state of one watch.
type watchState struct {
	reason Reason // Forbidden or NotServed
	err    error
	since  time.Time // the first probe with this reason

	// changesPending is true if the API server has changes after pendingVersion, the version of the informer at the probe.
	changesPending bool
	pendingVersion string
	// streamDelivered is true if a stream has delivered an event, so the API server supports the probe. streamSilent is true if, in addition, the
	// last stream has delivered no event.
	streamSilent, streamDelivered bool

	// suspectSince is the time of the first probe with one of these faults while the informer was at version. It is zero if the last probe has found
	// no fault. confirmedAt is the time of the last probe.
	suspectSince, confirmedAt time.Time
	version                   string

	// undecodable names the objects that the informer cannot decode. It is nil if the watch is not suspicious.
	undecodable error

	logged Reason // the reason of the last log line
}

// update records the result of a probe, and the resource version of the informer before the probe.
func (s *watchState) update(now time.Time, version string, result probeResult) {
	if result.unclear {
		return
	}
	if result.reason != s.reason {
		s.since = now
	}
	s.reason, s.err = result.reason, result.err
	switch {
	case result.reason != "":
		s.changesPending, s.streamSilent = false, false
	case result.probe == changesProbe:
		s.changesPending, s.pendingVersion = result.delivered, version
	case result.probe == streamProbe:
		s.streamSilent = s.streamDelivered && !result.delivered
		s.streamDelivered = s.streamDelivered || result.delivered
	}
	switch suspicious := s.streamSilent || s.changesPending && s.pendingVersion == version; {
	case !suspicious:
		s.suspectSince = time.Time{}
	case s.suspectSince.IsZero() || s.version != version:
		s.suspectSince = now
	}
	s.version, s.confirmedAt = version, now
}

// diagnose returns the reason why the watch delivers nothing, the beginning of the problem, and its error. The reason is empty if the watch is healthy.
func (s *watchState) diagnose(silentAfter time.Duration) (Reason, time.Time, error) {
	switch {
	case s.reason != "":
		return s.reason, s.since, s.err
	case s.suspectSince.IsZero():
		return "", time.Time{}, nil
	case s.undecodable != nil:
		return Undecodable, s.suspectSince, s.undecodable
	case s.confirmedAt.Sub(s.suspectSince) >= silentAfter:
		return Silent, s.suspectSince, nil
	}
	return "", time.Time{}, nil
}
