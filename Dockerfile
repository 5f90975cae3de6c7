# The course in a container; kernels run in its emulator, so no GPU is needed:
#   docker build -t hopperlab .
#   docker run --rm -p 8888:8888 -v "$PWD/work:/home/learner/hopperlab/work" hopperlab
# On a machine with an H100 or H200 and NVIDIA's container toolkit, add --build-arg EXTRAS=lab,cuda13 to the first and --gpus all to the second.
FROM python:3.12-slim

ARG EXTRAS=lab
# Grading runs submissions in bubblewrap: inside this container it needs --security-opt seccomp=unconfined --security-opt systempaths=unconfined.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 learner && install -d -o learner -g learner /home/learner/hopperlab
WORKDIR /home/learner/hopperlab
USER learner
ENV PATH=/home/learner/venv/bin:$PATH PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

# The packages first: they change less often than the course.
COPY --chown=learner:learner constraints.txt pyproject.toml hatch_build.py README.md LICENSE ./
COPY --chown=learner:learner hopperlab ./hopperlab
RUN python -m venv /home/learner/venv \
 && pip install -c constraints.txt hatchling editables \
 && pip install -c constraints.txt --no-build-isolation -e ".[${EXTRAS}]"
COPY --chown=learner:learner . .
RUN mkdir -p work && hopperlab doctor

EXPOSE 8888
CMD ["hopperlab", "lab", "--no-browser", "--ip=0.0.0.0", "--port=8888"]
