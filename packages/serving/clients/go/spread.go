package serving

import (
	"fmt"
	"sync"
	"time"
)

// rest is how long a server that could not be reached gets no requests.
const rest = time.Second

// spread gives addresses in proportion to their weights (smooth weighted round robin),
// and keeps the budget of further tries.
type spread struct {
	mu        sync.Mutex
	addresses []string
	weights   []float64
	credit    []float64
	resting   []time.Time
	saved     float64
	budget    float64
	reserve   float64
}

func newSpread(addresses []string, weights []float64, retry Retry) (*spread, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("[client] expected one address or more")
	}
	if weights == nil {
		for range addresses {
			weights = append(weights, 1)
		}
	}
	if len(weights) != len(addresses) {
		return nil, fmt.Errorf("[client] expected %d weights, got %d", len(addresses), len(weights))
	}
	for _, weight := range weights {
		if !(weight > 0) {
			return nil, fmt.Errorf("[client] expected weights above 0, got %v", weights)
		}
	}
	return &spread{
		addresses: addresses,
		weights:   weights,
		credit:    make([]float64, len(addresses)),
		resting:   make([]time.Time, len(addresses)),
		saved:     retry.Reserve,
		budget:    retry.Budget,
		reserve:   retry.Reserve,
	}, nil
}

// begin counts a request, which adds to the budget.
func (s *spread) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved += s.budget
	if s.saved > s.reserve {
		s.saved = s.reserve
	}
}

// mayRetry takes a further try from the budget, if one is left.
func (s *spread) mayRetry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved < 1 {
		return false
	}
	s.saved--
	return true
}

// next is the address for a try, not number avoid where there is another.
func (s *spread) next(avoid int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	fits := func(index int, tired bool) bool {
		return (index != avoid || len(s.addresses) == 1) && (tired || !s.resting[index].After(now))
	}
	for _, tired := range []bool{false, true} {
		chosen, total := -1, 0.0
		for index := range s.addresses {
			if !fits(index, tired) {
				continue
			}
			s.credit[index] += s.weights[index]
			total += s.weights[index]
			if chosen < 0 || s.credit[index] > s.credit[chosen] {
				chosen = index
			}
		}
		if chosen >= 0 {
			s.credit[chosen] -= total
			return chosen
		}
	}
	return 0
}

// failed lets a server rest.
func (s *spread) failed(index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting[index] = time.Now().Add(rest)
}
